/* A program for MPI-DHT: every process writes results, and reads those of its neighbour.
 *
 *     mpicc -I PREFIX/include/probeline mpi_dht.c -L PREFIX/lib -lprobeline -o example
 *     mpirun -n 4 ./example           with a name: saves the tables to this file
 */
#include <LUCX/MPI/DHT.h>
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

/* Creates a table with this number of buckets in each process. */
static DHT *create(int value_bytes, unsigned int buckets)
{
    DHT_init_t init;
    init.key_size = sizeof(struct key);
    init.data_size = value_bytes;
    init.bucket_count = buckets;
    init.hash_func = hash;
    init.comm = MPI_COMM_WORLD;
    return DHT_create(&init);
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

/* Reads what was saved into another table with other numbers of buckets. */
static void use_file(DHT *table, const char *name)
{
    int ranks, before, after;
    DHT *other = create(sizeof(struct value), 9 * ENTRIES);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    check(other != NULL, "a second table is created");
    check(DHT_to_file(table, name) == DHT_SUCCESS, "a table is saved");
    check(DHT_from_file(other, name) == DHT_SUCCESS, "a table is read");
    before = read_all(table, (rank + 1) % ranks);
    after = read_all(other, (rank + 1) % ranks);
    check(after <= before && after >= before - 5, "nearly all entries are in the other table");
    check(DHT_free(other, NULL) == DHT_SUCCESS, "the second table is freed");
}

/* Files of other sizes, that were cut short, or that are not there. */
static void refuse_files(const char *name)
{
    DHT *other = create(8, 100);
    DHT *same = create(sizeof(struct value), 100);
    FILE *file;
    check(DHT_from_file(other, name) == DHT_WRONG_FILE, "other sizes are refused");
    check(DHT_from_file(other, "/nowhere/to/be/found") == DHT_FILE_IO_ERROR, "no file");
    check(DHT_to_file(other, "/nowhere/to/be/found") == DHT_FILE_IO_ERROR, "no folder");
    check(DHT_from_file(other, rank == 0 ? NULL : name) == DHT_MPI_ERROR, "no name on a process");
    check(DHT_to_file(other, rank == 0 ? NULL : name) == DHT_MPI_ERROR, "no name on a process");
    check(DHT_barrier(other) == DHT_SUCCESS, "a barrier");
    if (rank == 0) {
        file = fopen(name, "ab");
        check(file != NULL && fputc(0, file) == 0 && fclose(file) == 0, "a byte is added");
    }
    check(DHT_barrier(other) == DHT_SUCCESS, "a barrier");
    check(DHT_from_file(same, name) == DHT_WRONG_FILE, "half an entry is refused");
    check(DHT_free(other, NULL) == DHT_SUCCESS && DHT_free(same, NULL) == DHT_SUCCESS, "free");
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
        DHT *table = create(sizeof(struct value), 4 * ENTRIES);
        check(table != NULL, "a table is created");
        for (number = 0; number < ENTRIES; number++) {
            struct value value = value_of(rank, number);
            int code;
            key = key_of(rank, number);
            code = DHT_write(table, &key, &value, &proc, &index);
            check(code == DHT_SUCCESS || code == DHT_WRITE_SUCCESS_WITH_EVICTION, "a write succeeds");
            check(proc < (uint32_t)ranks && index < 4 * ENTRIES, "a bucket is in a process");
        }
        check(DHT_barrier(table) == DHT_SUCCESS, "a barrier");
        check(read_all(table, (rank + 1) % ranks) > ENTRIES * 9 / 10, "nearly all are there");
        key = key_of(ranks, 0);
        check(DHT_read(table, &key, &key) == DHT_READ_MISS, "no other key is there");
        check(DHT_print_statistics(table) == DHT_SUCCESS, "statistics");
        check(DHT_read(NULL, &key, &key) == DHT_MPI_ERROR, "NULL is an error");
        if (argc > 1)
            use_file(table, argv[1]);
        check(DHT_free(table, &mismatches) == DHT_SUCCESS, "a table is freed");
    }
    if (argc > 1)
        refuse_files(argv[1]);
    /* Sizes that differ between processes are an error on all of them. */
    check(ranks == 1 || create(8 + rank, 100) == NULL, "different sizes are refused");
    MPI_Finalize();
    if (rank == 0)
        printf("all is well with %d processes\n", ranks);
    return 0;
}
