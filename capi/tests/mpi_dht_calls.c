/* The calls that programs make of MPI-DHT, for each of its versions: tests/mpi_dht.rs defines HEADER, CREATE
 * (1 comm and sizes, 2 DHT_init_t with a communicator, 3 DHT_init_t with a bootstrap function) and FREE
 * (pointers besides the table), and includes this. With an argument, saves tables to that file; with
 * "differ", two processes make different calls. */
#include HEADER
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS 50
#define ADDITIONS 500

static int rank, ranks;

static void check(int is_true, const char *what)
{
    if (is_true)
        return;
    fprintf(stderr, "rank %d: not true: %s (%s)\n", rank, what, probeline_last_error());
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static uint64_t hash(int length, const void *key)
{
    (void)length;
    (void)key;
    return 7;
}

static DHT *create(MPI_Comm comm, uint32_t buckets, uint32_t data_size, uint32_t key_size)
{
#if CREATE == 1
    return DHT_create(comm, buckets, data_size, key_size, hash);
#else
    DHT_init_t init;
#if CREATE == 3
    ucx_ep_args_mpi_t args;
    args.comm = comm;
    init.bcast_func = UCX_INIT_BSTRAP_MPI;
    init.bcast_func_args = &args;
#else
    init.comm = comm;
#endif
    init.key_size = (int)key_size;
    init.data_size = (int)data_size;
    init.bucket_count = buckets;
    init.hash_func = hash;
    return DHT_create(&init);
#endif
}

static void free_table(DHT *table, int64_t evictions, int64_t misses)
{
#if FREE == 1
    uint32_t retries = 77;
    (void)evictions, (void)misses;
    check(DHT_free(table, &retries) == DHT_SUCCESS, "a table is freed");
    check(retries != 77, "retries are stored");
#elif FREE == 2
    int all_evictions = -1, all_misses = -1;
    check(DHT_free(table, &all_evictions, &all_misses) == DHT_SUCCESS, "a table is freed");
    check(evictions < 0 || all_evictions == evictions, "evictions are summed");
    check(misses < 0 || all_misses == misses, "misses are summed");
#else
    uint64_t all_evictions = 77, all_misses = 77, retries = 77;
    check(DHT_free(table, &all_evictions, &all_misses, &retries) == DHT_SUCCESS, "free");
    check(evictions < 0 || all_evictions == (uint64_t)evictions, "evictions are summed");
    check(misses < 0 || all_misses == (uint64_t)misses, "misses are summed");
    check(retries != 77, "retries are stored");
#endif
}

/* Every process writes, and reads what its neighbour has written. */
static void read_and_write(const char *file)
{
    DHT *table = create(MPI_COMM_WORLD, BUCKETS, sizeof(uint32_t), sizeof(uint32_t));
    DHT *other;
    uint32_t key = (uint32_t)rank, data = key + 100, proc = 77, index = 77;
    int status;

    if (table == NULL) {
        /* No abort: the launcher may lose what a rank printed just before. */
        MPI_Finalize();
        exit(EXIT_FAILURE);
    }
    check(table->key_size == 4 && table->data_size == 4, "the sizes are members");
    check(table->bucket_count == BUCKETS && table->table_size == BUCKETS, "the buckets are, too");
    status = DHT_write(table, &key, &data, &proc, &index);
    switch (status) {
    case DHT_UCX_ERROR:
        MPI_Abort(MPI_COMM_WORLD, status);
        break;
    case DHT_WRITE_SUCCESS_WITH_EVICTION:
        check(table->evictions == 1, "an eviction is counted");
        break;
    default:
        check(status == DHT_SUCCESS, "a write succeeds");
    }
    check(DHT_write(table, &key, &data, NULL, NULL) == DHT_SUCCESS, "the place is optional");
    check(DHT_barrier(table) == DHT_SUCCESS, "a barrier");
    key = (uint32_t)((rank + 1) % ranks);
    data = 0;
    check(DHT_read(table, &key, &data) == DHT_SUCCESS && data == key + 100, "a neighbour's value");
    key = (uint32_t)rank;
    data = 0;
    check(proc < (uint32_t)ranks && index < BUCKETS, "a place is stored");
    check(DHT_read_location(table, proc, index, &data) == DHT_SUCCESS, "it has an entry");
    check(data == key + 100, "it has the entry that was written");
    check(DHT_read_location(table, (uint32_t)ranks, 0, &data) == DHT_MPI_ERROR, "no such process");
    check(DHT_read_location(table, 0, BUCKETS, &data) == DHT_MPI_ERROR, "no such bucket");
    key = 12345;
    check(DHT_read(table, &key, &data) == DHT_READ_MISS && table->read_misses == 1, "a miss");
    check(table->stats->r_access == 3 && table->stats->w_access == 2, "accesses are counted");
    check(DHT_print_statistics(table) == DHT_SUCCESS, "statistics");
    check(table->stats->read_misses == 0 && table->read_misses == 1, "statistics start again");
    other = create(MPI_COMM_WORLD, 2 * BUCKETS, sizeof(uint32_t), sizeof(uint32_t));
    check(DHT_to_file(table, file) == DHT_SUCCESS, "a table is saved");
    check(DHT_from_file(other, file) == DHT_SUCCESS, "a table is loaded");
    check(DHT_from_file(other, "/nowhere/to/be/found") == DHT_FILE_IO_ERROR, "no file");
    key = (uint32_t)((rank + 1) % ranks);
    check(DHT_read(other, &key, &data) == DHT_SUCCESS && data == key + 100, "a loaded value");
    free_table(other, 0, 0);
    free_table(table, 0, ranks);
}

/* More entries than buckets: each one is where its write has stored it. */
static void evict(void)
{
    DHT *table = create(MPI_COMM_WORLD, BUCKETS, 8, 8);
    uint64_t number;
    int evictions = 0;
    for (number = 0; number < 4 * BUCKETS; number++) {
        uint64_t key[1], data[1], found[1] = { 0 };
        uint32_t proc, index;
        int status, code;
        key[0] = number * (uint64_t)ranks + (uint64_t)rank;
        data[0] = 3 * key[0];
        status = DHT_write(table, key, data, &proc, &index);
        evictions += status == DHT_WRITE_SUCCESS_WITH_EVICTION;
        check(status == DHT_SUCCESS || status == DHT_WRITE_SUCCESS_WITH_EVICTION, "a write");
        code = DHT_read_location(table, proc, index, found);
        /* Others may write to the same bucket. */
        check(ranks > 1 || (code == DHT_SUCCESS && found[0] == data[0]), "it is where it should be");
        check(code == DHT_READ_MISS || found[0] % 3 == 0, "a value of some key");
    }
    check(table->evictions == evictions, "evictions are counted");
    check(ranks > 1 || evictions > BUCKETS, "a full table evicts");
    free_table(table, -1, -1);
}

static int calls;

/* Adds what is sent, and refuses 0. */
static int add(int send_size, void *send, int data_size, void *old_data)
{
    uint64_t *sum = (uint64_t *)old_data;
    uint32_t addend = 0;
    calls++;
    check(send_size == 4 && data_size == 16, "the callback gets the sizes");
    memcpy(&addend, send, sizeof addend);
    check(sum[1] == ~sum[0] || (sum[0] == 0 && sum[1] == 0), "the stored data is whole");
    sum[0] += addend;
    sum[1] = ~sum[0];
    return addend == 0 ? 5 : 0;
}

/* All processes add to the same keys: no addition is lost. */
static void accumulate(void)
{
    DHT *table = create(MPI_COMM_WORLD, BUCKETS, 16, 8);
    uint64_t key, sum[2], expected = 0;
    uint32_t addend, proc, index;
    int number, returned = 77;

    key = 1;
    addend = 1;
    check(DHT_write_accumulate(table, &key, 4, &addend, NULL, NULL, &returned) == DHT_MPI_ERROR,
          "no callback is an error");
    DHT_set_accumulate_callback(table, add);
    check(table->accumulate_callback == add, "the callback is a member");
    for (number = 0; number < ADDITIONS; number++) {
        key = 1 + (uint64_t)number % 2;
        addend = (uint32_t)(rank + 1);
        check(DHT_write_accumulate(table, &key, 4, &addend, &proc, &index, &returned) ==
                  DHT_SUCCESS, "an accumulating write");
        check(returned == 0 && proc < (uint32_t)ranks && index < BUCKETS, "its results");
        expected += (uint64_t)ranks * (uint64_t)(ranks + 1) / 2 * (uint64_t)(number % 2 == 0);
    }
    check(calls >= ADDITIONS, "the callback is called for each of them");
    DHT_barrier(table);
    for (key = 1; key <= 2; key++) {
        addend = 0;
        check(DHT_write_accumulate(table, &key, 4, &addend, NULL, NULL, &returned) == DHT_SUCCESS,
              "a refused accumulating write");
        check(returned == 5, "what the callback returns is stored");
        check(DHT_read(table, &key, sum) == DHT_SUCCESS && sum[0] == expected, "all were added");
    }
    key = 3;
    check(DHT_write_accumulate(table, &key, 4, &addend, NULL, NULL, NULL) == DHT_SUCCESS, "refused");
    check(DHT_read(table, &key, sum) == DHT_READ_MISS, "and not written");
    free_table(table, 0, ranks);
}

/* A process that distributes work and is not in the table. */
static void leave_one_out(void)
{
    MPI_Comm workers;
    MPI_Comm_split(MPI_COMM_WORLD, ranks > 1 && rank == 0, rank, &workers);
    if (ranks == 1 || rank != 0) {
        DHT *table = create(workers, BUCKETS, 8, 8);
        uint64_t key = 1, data = 2;
        check(table != NULL, "a table of some processes");
        check(DHT_write(table, &key, &data, NULL, NULL) == DHT_SUCCESS, "a write");
        check(DHT_read(table, &key, &data) == DHT_SUCCESS && data == 2, "a read");
        free_table(table, 0, 0);
    }
    MPI_Comm_free(&workers);
}

static void distribution(void)
{
    DHT *table = create(MPI_COMM_WORLD, BUCKETS, 8, 8);
    uint64_t key = (uint64_t)rank, data = 1, **matrix;
    int code, row, column;
    DHT_write(table, &key, &data, NULL, NULL);
    DHT_read(table, &key, &data);
    code = DHT_gather_distribution(table, &matrix, 1);
#ifndef DHT_STATISTICS
    (void)row, (void)column;
    check(code == DHT_NOT_IMPLEMENTED && matrix == NULL, "nothing is counted");
#else
    check(code == DHT_SUCCESS && (matrix != NULL) == (rank == 0), "a matrix on process 0");
    for (row = 0; matrix != NULL && row < ranks; row++) {
        uint64_t sum = 0;
        for (column = 0; column < ranks; column++)
            sum += matrix[row][column];
        check(sum == 2, "each process has made two accesses");
    }
    DHT_free_distribution(table, matrix);
    check(DHT_gather_index_usage(table, &matrix, 0) == DHT_SUCCESS, "the usage of candidates");
    for (row = 0; matrix != NULL && row < ranks; row++) {
        uint64_t sum = 0;
        for (column = 0; column < 6; column++)
            sum += matrix[row][column];
        check(sum == 1, "each process has made one write");
    }
    DHT_free_distribution(table, matrix);
#endif
    free_table(table, 0, 0);
}

/* Processes in different calls are all told the names of both, whatever these gather. */
static void differ(void)
{
    static const char *const names[3][2] = {
        { "DHT_to_file", "DHT_barrier" },
        { "DHT_barrier", "DHT_print_statistics" },
        { "DHT_print_statistics", "DHT_from_file" },
    };
    char text[64];
    int pair, of;

    for (pair = 0; pair < 3; pair++) {
        DHT *table = create(MPI_COMM_WORLD, BUCKETS, 8, 8);
        const char *mine = names[pair][rank];
        int code = strcmp(mine, "DHT_barrier") == 0            ? DHT_barrier(table)
                   : strcmp(mine, "DHT_print_statistics") == 0 ? DHT_print_statistics(table)
                   : strcmp(mine, "DHT_to_file") == 0          ? DHT_to_file(table, "differs")
                                                               : DHT_from_file(table, "differs");
        check(code != DHT_SUCCESS, "a call fails whose processes are in different ones");
        for (of = 0; of < 2; of++) {
            sprintf(text, "rank %d called %s (call ", of, names[pair][of]);
            check(strstr(probeline_last_error(), text) != NULL, text);
        }
    }
    check(create(MPI_COMM_WORLD, BUCKETS, 8, rank == 0 ? 0 : 8) == NULL, "no table");
    check(strstr(probeline_last_error(), rank == 0 ? "key_size is 0: give 1" : "rank 0 could not") != NULL,
          "options have the names that programs of MPI-DHT know");
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc > 1 && strcmp(argv[1], "differ") == 0) {
        differ();
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0)
            printf("all were told\n");
        MPI_Finalize();
        return 0;
    }
    read_and_write(argc > 1 ? argv[1] : "entries");
    evict();
    accumulate();
    leave_one_out();
    distribution();
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("all is well with %d processes\n", ranks);
    MPI_Finalize();
    return 0;
}
