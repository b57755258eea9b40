/* A program for MPI-DHT: every process writes results, and reads those of its neighbour.
 *
 *     mpicc -I PREFIX/include/probeline mpi_dht.c -L PREFIX/lib -lprobeline -o example
 *     mpirun -n 4 ./example
 */
#include <LUCX/DHT.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ENTRIES 500

/* The sizes of a reactive-transport simulation: 80 and 104 bytes. */
struct key {
    double species[9];
    double step;
};

struct value {
    double numbers[13];
};

static int rank;

static void check(int is_true, const char *what)
{
    if (is_true)
        return;
    fprintf(stderr, "rank %d: not true: %s\n", rank, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static uint64_t hash(int length, const void *key)
{
    const unsigned char *bytes = (const unsigned char *)key;
    uint64_t state = 14695981039346656037u;
    while (length-- > 0)
        state = (state ^ *bytes++) * 1099511628211u;
    return state;
}

static struct key key_of(int owner, int number)
{
    struct key key;
    int at;
    for (at = 0; at < 9; at++)
        key.species[at] = owner * 1000.0 + number * 0.5 + at;
    key.step = number;
    return key;
}

static struct value value_of(int owner, int number)
{
    struct value value;
    int at;
    for (at = 0; at < 13; at++)
        value.numbers[at] = owner + number * (double)at;
    return value;
}

/* Reads what a process has written, and returns the number of hits. */
static int read_all(DHT *table, int owner)
{
    int number, hits = 0;
    for (number = 0; number < ENTRIES; number++) {
        struct key key = key_of(owner, number);
        struct value value, right = value_of(owner, number);
        int code = DHT_read(table, &key, &value);
        check(code == DHT_SUCCESS || code == DHT_READ_MISS, "a read hits or misses");
        if (code != DHT_SUCCESS)
            continue;
        check(memcmp(&value, &right, sizeof value) == 0, "the value is that of the key");
        hits++;
    }
    return hits;
}

int main(int argc, char **argv)
{
    int ranks, number, round;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (round = 0; round < 2; round++) {
        struct key key;
        uint32_t proc = 0, index = 0, mismatches = 0;
        DHT *table = DHT_create(sizeof(struct key), sizeof(struct value), 4 * ENTRIES, hash,
                                MPI_COMM_WORLD);
        check(table != NULL, "a table is created");
        for (number = 0; number < ENTRIES; number++) {
            struct value value = value_of(rank, number);
            int code;
            key = key_of(rank, number);
            code = DHT_write(table, &key, &value, &proc, &index);
            check(code == DHT_SUCCESS || code == DHT_WRITE_EVICTED, "a write succeeds");
            check(proc < (uint32_t)ranks && index < 4 * ENTRIES, "a bucket is in a process");
        }
        check(DHT_barrier(table) == DHT_SUCCESS, "a barrier");
        check(read_all(table, (rank + 1) % ranks) > ENTRIES * 9 / 10, "nearly all are there");
        key = key_of(ranks, 0);
        check(DHT_read(table, &key, &key) == DHT_READ_MISS, "no other key is there");
        check(DHT_print_statistics(table) == DHT_SUCCESS, "statistics");
        check(DHT_read(NULL, &key, &key) == DHT_ERROR, "NULL is an error");
        check(DHT_free(table, &mismatches) == DHT_SUCCESS, "a table is freed");
    }
    /* Sizes that differ between processes are an error on all of them. */
    check(ranks == 1 || DHT_create((size_t)(8 + rank), 8, 100, hash, MPI_COMM_WORLD) == NULL,
          "different sizes are refused");
    MPI_Finalize();
    if (rank == 0)
        printf("all is well with %d processes\n", ranks);
    return 0;
}
