/* What two ranks are told that disagree, or of which one is lost. */
#include <probeline.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static uint32_t rank;

static void expect(probeline_status status, probeline_status expected, const char *word, int line)
{
    const char *text = probeline_last_error();
    if (status == expected && (status == PROBELINE_OK || strstr(text, word)))
        return;
    fprintf(stderr, "rank %u, line %d: %s (%s), not %s with \"%s\"\n", (unsigned)rank, line,
            probeline_error_text(status), text, probeline_error_text(expected), word);
    exit(1);
}

#define EXPECT(call, expected, word) expect(call, expected, word, __LINE__)
#define INVALID(call, word) expect(call, PROBELINE_ERROR_INVALID, word, __LINE__)
#define OK(call) expect(call, PROBELINE_OK, "", __LINE__)

/* The calls of a fork are refused, and what it closes disturbs nobody. */
static void refuses_fork(probeline_job *job)
{
    int status = -1;
    pid_t fork_of_rank;

    fflush(NULL);
    fork_of_rank = fork();
    if (fork_of_rank == 0) {
        EXPECT(probeline_job_barrier(job), PROBELINE_ERROR_INVALID, "is a fork");
        OK(probeline_job_close(job));
        _exit(0);
    }
    if (fork_of_rank < 0 || waitpid(fork_of_rank, &status, 0) != fork_of_rank || status != 0)
        exit(1);
    OK(probeline_job_barrier(job));
}

/* Wrong arguments on one rank fail on both, and the job goes on. */
static void gathers_in_step(probeline_job *job)
{
    uint64_t number = 5 + rank, result, both[3];
    char *large;

    if (rank == 1)
        INVALID(probeline_job_all_gather(job, NULL, 8, both), "mine is NULL");
    else
        EXPECT(probeline_job_all_gather(job, &number, 8, both), PROBELINE_ERROR_FAILED,
               "owner 1 could not");
    EXPECT(probeline_job_all_gather(job, &number, 4 + rank, both), PROBELINE_ERROR_DIFFERS,
           "its number of bytes is");
    large = calloc(3, 3 << 20);
    INVALID(probeline_job_all_gather(job, large, 3 << 20, large),
            "more than the 4194304 that");
    free(large);
    OK(probeline_job_sum(job, number, &result));
    if (result != 11)
        exit(1);
    OK(probeline_job_min(job, number, &result));
    if (result != 5)
        exit(1);
    OK(probeline_job_max(job, number, &result));
    if (result != 6)
        exit(1);
}

/* Ranks that call different functions are both told the names. This ends the job. */
static int calls_that_differ(const probeline_job_options *options)
{
    probeline_job *job;
    probeline_table *table;
    probeline_status status;
    uint64_t len;

    OK(probeline_job_open(options, &job));
    OK(probeline_job_rank(job, &rank, NULL));
    OK(probeline_table_open(job, NULL, &table));
    status = rank == 0 ? probeline_table_len(table, &len) : probeline_table_clear(table);
    EXPECT(status, PROBELINE_ERROR_DIFFERS, "owner 1 called Table::clear (call ");
    EXPECT(status, PROBELINE_ERROR_DIFFERS, "owner 0 called Table::len (call ");
    probeline_table_close(table);
    probeline_job_close(job);
    printf("rank %u was told\n", (unsigned)rank);
    return 0;
}

int main(int count, char **arguments)
{
    probeline_job_options job_options;
    probeline_table_options table_options;
    probeline_map_options options;
    probeline_job *job, *second;
    probeline_table *table;
    probeline_map *map;
    probeline_map_loaded loaded;
    uint32_t ranks, both[2];
    uint64_t key = 1, value = 2, len;

    OK(probeline_job_options_init(&job_options, sizeof job_options));
    job_options.transport = PROBELINE_TRANSPORT_SHM;
    job_options.ranks = 2;
    if (count > 1 && strcmp(arguments[1], "calls") == 0)
        return calls_that_differ(&job_options);
    OK(probeline_job_open(&job_options, &job));
    OK(probeline_job_rank(job, &rank, &ranks));
    OK(probeline_job_all_gather(job, &rank, sizeof rank, both));
    if (ranks != 2 || both[0] != 0 || both[1] != 1)
        return 1;
    gathers_in_step(job);
    refuses_fork(job);
    /* Copies of this program that a second job starts would open it in place of the first. */
    EXPECT(probeline_job_open(&job_options, &second), PROBELINE_ERROR_JOIN, "joined a job already");

    OK(probeline_map_options_init(&options, sizeof options));
    OK(probeline_table_options_init(&table_options, sizeof table_options));
    options.key_bytes = 8;
    options.value_bytes = 8 + rank;
    EXPECT(probeline_map_open(job, &options, &map), PROBELINE_ERROR_DIFFERS, "opened something else");
    options.value_bytes = 8;
    options.candidates = 5 + rank;
    EXPECT(probeline_map_open(job, &options, &map), PROBELINE_ERROR_DIFFERS, "number of candidates");
    options.candidates = 6;
    /* 192 and 256 bits take the same room. */
    table_options.key_bits = 192 + 64 * rank;
    EXPECT(probeline_table_open(job, &table_options, &table), PROBELINE_ERROR_DIFFERS, "else");
    options.key_bytes = rank == 0 ? 8 : 0;
    EXPECT(probeline_map_open(job, &options, &map),
           rank == 0 ? PROBELINE_ERROR_DIFFERS : PROBELINE_ERROR_INVALID,
           rank == 0 ? "rank 1 could not take part" : "key_bytes is 0");
    EXPECT(probeline_map_open(job, &options, rank == 0 ? &map : NULL),
           rank == 0 ? PROBELINE_ERROR_DIFFERS : PROBELINE_ERROR_INVALID,
           rank == 0 ? "rank 1 could not take part" : "map is NULL");
    EXPECT(probeline_table_open(job, NULL, rank == 0 ? &table : NULL),
           rank == 0 ? PROBELINE_ERROR_DIFFERS : PROBELINE_ERROR_INVALID,
           rank == 0 ? "rank 1 could not take part" : "table is NULL");
    options.key_bytes = 8;
    table_options.key_bits = 63;
    if (rank == 0)
        EXPECT(probeline_map_open(job, &options, &map), PROBELINE_ERROR_DIFFERS, "rank 1");
    else
        EXPECT(probeline_table_open(job, &table_options, &table), PROBELINE_ERROR_DIFFERS, "rank 0");

    OK(probeline_map_open(job, &options, &map));
    OK(probeline_map_put(map, &key, &value, NULL));
    OK(probeline_map_len(map, &len));
    if (len != 1)
        return 1;
    EXPECT(probeline_map_save(map, rank == 0 ? "ranks.map" : NULL, NULL),
           rank == 0 ? PROBELINE_ERROR_DIFFERS : PROBELINE_ERROR_INVALID,
           rank == 0 ? "rank 1 could not take part" : "the file is NULL");
    EXPECT(probeline_map_load(map, "ranks.map", rank == 0 ? NULL : &loaded, 3),
           rank == 0 ? PROBELINE_ERROR_DIFFERS : PROBELINE_ERROR_INVALID,
           rank == 0 ? "rank 1 could not take part" : "sizeof");
    if (rank == 1)
        exit(7);
    EXPECT(probeline_map_len(map, &len), PROBELINE_ERROR_LOST, "owner 1 died or left (exit status 7)");
    EXPECT(probeline_map_close(map), PROBELINE_ERROR_LOST, "owner 1");
    EXPECT(probeline_job_close(job), PROBELINE_ERROR_LOST, "rank 1 failed (exit status: 7)");
    printf("every disagreement was reported\n");
    return 0;
}
