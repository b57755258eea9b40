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
        EXPECT(probeline_job_all_gather(job, &number, 8, both), PROBELINE_ERROR_OTHER_RANK,
               "rank 1 could not");
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

/* The pairs of functions that two ranks call instead of the same one. */
static const char *const pairs[][2] = {
    {"probeline_table_len", "probeline_table_clear"},
    {"probeline_map_open", "probeline_table_open"},
    {"probeline_map_save", "probeline_map_load"},
    {"probeline_map_check_save", "probeline_map_save"},
    {"probeline_map_load", "probeline_table_open"},
    {"probeline_map_len", "probeline_map_clear"},
    {"probeline_map_close", "probeline_table_close"},
    {"probeline_job_barrier", "probeline_job_sum"},
};

static probeline_status call(const char *name, probeline_job *job, probeline_table *table, probeline_map *map,
                             const probeline_map_options *options)
{
    uint64_t count;

    if (strcmp(name, "probeline_table_len") == 0)
        return probeline_table_len(table, &count);
    if (strcmp(name, "probeline_table_clear") == 0)
        return probeline_table_clear(table);
    if (strcmp(name, "probeline_map_open") == 0)
        return probeline_map_open(job, options, &map);
    if (strcmp(name, "probeline_table_open") == 0)
        return probeline_table_open(job, NULL, &table);
    if (strcmp(name, "probeline_map_save") == 0)
        return probeline_map_save(map, "differs.map", NULL);
    if (strcmp(name, "probeline_map_len") == 0)
        return probeline_map_len(map, &count);
    if (strcmp(name, "probeline_map_clear") == 0)
        return probeline_map_clear(map);
    if (strcmp(name, "probeline_map_close") == 0)
        return probeline_map_close(map);
    if (strcmp(name, "probeline_table_close") == 0)
        return probeline_table_close(table);
    if (strcmp(name, "probeline_job_barrier") == 0)
        return probeline_job_barrier(job);
    if (strcmp(name, "probeline_job_sum") == 0)
        return probeline_job_sum(job, 1, &count);
    if (strcmp(name, "probeline_map_load") == 0)
        return probeline_map_load(map, "differs.map", NULL, 0);
    return probeline_map_check_save(map, "differs.map");
}

/* Ranks that call different functions are both told the names. This ends the job. */
static int calls_that_differ(const probeline_job_options *job_options, const char *const pair[2])
{
    probeline_job *job;
    probeline_table *table;
    probeline_map_options options;
    probeline_map *map;
    probeline_status status;
    char text[64];
    int of;

    OK(probeline_job_open(job_options, &job));
    OK(probeline_job_rank(job, &rank, NULL));
    OK(probeline_table_open(job, NULL, &table));
    OK(probeline_map_options_init(&options, sizeof options));
    options.key_bytes = options.value_bytes = 8;
    OK(probeline_map_open(job, &options, &map));
    status = call(pair[rank], job, table, map, &options);
    for (of = 0; of < 2; of++) {
        sprintf(text, "rank %d called %s (call ", of, pair[of]);
        EXPECT(status, PROBELINE_ERROR_DIFFERS, text);
    }
    if (strcmp(pair[rank], "probeline_map_close") != 0)
        probeline_map_close(map);
    if (strcmp(pair[rank], "probeline_table_close") != 0)
        probeline_table_close(table);
    probeline_job_close(job);
    printf("rank %u was told\n", (unsigned)rank);
    return 0;
}

/* A job of one rank is opened in the copies as well, before, beside and after the one of two. */
static void opens_alone(void)
{
    probeline_job_options options;
    probeline_job *alone;
    uint32_t ranks;

    OK(probeline_job_options_init(&options, sizeof options));
    options.transport = PROBELINE_TRANSPORT_SHM;
    OK(probeline_job_open(&options, &alone));
    OK(probeline_job_rank(alone, NULL, &ranks));
    if (ranks != 1)
        exit(1);
    OK(probeline_job_close(alone));
}

/* Rank 0 kills a copy that works on after the job. */
static int kills_copy(probeline_job_options *options)
{
    probeline_job *job;

    options->close_limit_s = 1;
    OK(probeline_job_open(options, &job));
    OK(probeline_job_rank(job, &rank, NULL));
    OK(probeline_job_barrier(job));
    if (rank == 1) {
        OK(probeline_job_close(job));
        sleep(60);
    }
    EXPECT(probeline_job_close(job), PROBELINE_ERROR_LOST, "rank 1 did not end in time and was killed");
    opens_alone();
    printf("rank 1 was killed\n");
    return 0;
}

/* A rank that polls rarely notices a lost one soon. */
static void polls_until_lost(probeline_map *map)
{
    probeline_finished finished;
    size_t count;
    int polls;

    for (polls = 1; probeline_map_poll(map, &finished, 1, &count) == PROBELINE_OK; polls++) {
        if (polls == 20)
            exit(1);
        sleep(1);
    }
    EXPECT(probeline_map_poll(map, &finished, 1, &count), PROBELINE_ERROR_LOST, "rank 1 died or left");
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
    opens_alone();
    if (count > 1 && strcmp(arguments[1], "close") == 0)
        return kills_copy(&job_options);
    if (count > 1)
        return calls_that_differ(&job_options, pairs[atoi(arguments[1])]);
    OK(probeline_job_open(&job_options, &job));
    OK(probeline_job_rank(job, &rank, &ranks));
    OK(probeline_job_all_gather(job, &rank, sizeof rank, both));
    if (ranks != 2 || both[0] != 0 || both[1] != 1)
        return 1;
    gathers_in_step(job);
    refuses_fork(job);
    /* Copies of this program that a second job starts would open it in place of the first. */
    EXPECT(probeline_job_open(&job_options, &second), PROBELINE_ERROR_JOIN, "joined a job already");
    opens_alone();

    OK(probeline_map_options_init(&options, sizeof options));
    OK(probeline_table_options_init(&table_options, sizeof table_options));
    options.key_bytes = 8;
    options.value_bytes = 8 + rank;
    EXPECT(probeline_map_open(job, &options, &map), PROBELINE_ERROR_DIFFERS, "its value_bytes is ");
    options.value_bytes = 8;
    options.candidates = 5 + rank;
    EXPECT(probeline_map_open(job, &options, &map), PROBELINE_ERROR_DIFFERS, "its candidates is ");
    options.candidates = 6;
    /* 192 and 256 bits take the same room. */
    table_options.key_bits = 192 + 64 * rank;
    EXPECT(probeline_table_open(job, &table_options, &table), PROBELINE_ERROR_DIFFERS, "its key_bits is ");
    options.key_bytes = rank == 0 ? 8 : 0;
    EXPECT(probeline_map_open(job, &options, &map),
           rank == 0 ? PROBELINE_ERROR_OTHER_RANK : PROBELINE_ERROR_INVALID,
           rank == 0 ? "rank 1 could not do its part" : "key_bytes is 0");
    EXPECT(probeline_map_open(job, &options, rank == 0 ? &map : NULL),
           rank == 0 ? PROBELINE_ERROR_OTHER_RANK : PROBELINE_ERROR_INVALID,
           rank == 0 ? "rank 1 could not do its part" : "map is NULL");
    EXPECT(probeline_table_open(job, NULL, rank == 0 ? &table : NULL),
           rank == 0 ? PROBELINE_ERROR_OTHER_RANK : PROBELINE_ERROR_INVALID,
           rank == 0 ? "rank 1 could not do its part" : "table is NULL");
    options.key_bytes = 8;
    OK(probeline_map_open(job, &options, &map));
    OK(probeline_map_put(map, &key, &value, NULL));
    OK(probeline_map_len(map, &len));
    if (len != 1)
        return 1;
    EXPECT(probeline_map_save(map, rank == 0 ? "ranks.map" : NULL, NULL),
           rank == 0 ? PROBELINE_ERROR_OTHER_RANK : PROBELINE_ERROR_INVALID,
           rank == 0 ? "rank 1 could not do its part" : "the file is NULL");
    EXPECT(probeline_map_load(map, "ranks.map", rank == 0 ? NULL : &loaded, 3),
           rank == 0 ? PROBELINE_ERROR_OTHER_RANK : PROBELINE_ERROR_INVALID,
           rank == 0 ? "rank 1 could not do its part" : "sizeof");
    EXPECT(probeline_map_check_save(map, rank == 0 ? "ranks.map" : NULL),
           rank == 0 ? PROBELINE_ERROR_OTHER_RANK : PROBELINE_ERROR_INVALID,
           rank == 0 ? "rank 1 could not do its part" : "the file is NULL");
    EXPECT(probeline_map_check_save(map, "no such folder/ranks.map"),
           rank == 0 ? PROBELINE_ERROR_FILE : PROBELINE_ERROR_OTHER_RANK,
           rank == 0 ? "cannot create no such folder/ranks.map" : "rank 0 could not do its part");
    OK(probeline_map_check_save(map, "ranks.map"));
    if (rank == 0 && access("ranks.map.partial", F_OK) == 0)
        return 1;
    for (len = 0; len < 2; len++)
        EXPECT(probeline_map_save(map, rank == len ? "" : "ranks.map", NULL),
               rank == len ? PROBELINE_ERROR_INVALID : PROBELINE_ERROR_OTHER_RANK,
               rank == len ? "the name of the file is empty" : "could not do its part");
    EXPECT(probeline_map_check_save(map, rank == 0 ? "one.map" : "another.map"), PROBELINE_ERROR_FILE,
           rank == 0 ? "one.map: rank 1 gives another name" : "another.map: rank 0 gives another name");
    OK(probeline_job_barrier(job));
    if (rank == 1)
        exit(7);
    polls_until_lost(map);
    EXPECT(probeline_map_len(map, &len), PROBELINE_ERROR_LOST, "rank 1 died or left (exit status 7)");
    EXPECT(probeline_map_close(map), PROBELINE_ERROR_LOST, "rank 1");
    EXPECT(probeline_job_close(job), PROBELINE_ERROR_LOST, "rank 1 failed (exit status: 7)");
    printf("every disagreement was reported\n");
    return 0;
}
