/* A table, a table of wide keys and a map, shared by all processes of a job.
 *
 *     cc $(pkg-config --cflags probeline) probeline.c $(pkg-config --libs probeline) -o example
 *     ./example        one process
 *     ./example 4      four processes on this machine
 *     mpirun -n 4 ./example
 */
#include <probeline.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEYS 5000u
#define WIDE_WORDS 3u

static void check(probeline_status status, const char *what)
{
    if (status == PROBELINE_OK)
        return;
    fprintf(stderr, "%s: %s: %s\n", what, probeline_error_text(status), probeline_last_error());
    exit(1);
}

static void expect(int is_true, const char *what)
{
    if (is_true)
        return;
    fprintf(stderr, "not true: %s\n", what);
    exit(1);
}

/* Every rank inserts the same keys: one of them inserts each, the others find it. */
static void use_table(probeline_job *job, uint32_t key_bits)
{
    static uint64_t keys[KEYS * WIDE_WORDS];
    static probeline_outcome outcomes[KEYS];
    size_t words = key_bits < 64 ? 1 : key_bits / 64;
    size_t key, found = 0;
    uint64_t len, absent[WIDE_WORDS] = { 1u << 30, 0, 0 };
    probeline_outcome outcome;
    probeline_table_options options;
    probeline_table_stats stats;
    probeline_table *table;

    check(probeline_table_options_init(&options, sizeof options), "options of a table");
    options.keys = KEYS;
    options.key_bits = key_bits;
    check(probeline_table_open(job, &options, &table), "open a table");

    for (key = 0; key < KEYS * words; key++)
        keys[key] = key / words;
    check(probeline_table_batch(table, PROBELINE_FIND_OR_PUT, keys, KEYS, outcomes), "a batch");
    for (key = 0; key < KEYS; key++)
        expect(outcomes[key] == PROBELINE_FOUND || outcomes[key] == PROBELINE_INSERTED, "has room");
    check(probeline_table_len(table, &len), "count the keys");
    expect(len == KEYS, "each key is there once");
    check(probeline_table_batch(table, PROBELINE_FIND, keys, KEYS, outcomes), "find all keys");
    for (key = 0; key < KEYS; key++)
        found += outcomes[key] == PROBELINE_FOUND;
    expect(found == KEYS, "all keys are found");
    check(probeline_table_find(table, absent, &outcome), "find");
    expect(outcome == PROBELINE_ABSENT, "no other key is there");
    check(probeline_table_get_stats(table, &stats, sizeof stats), "counters");
    expect(stats.absent == 1 && stats.failed == 0, "one find found nothing");
    check(probeline_table_close(table), "close the table");
}

struct question {
    double temperature;
    uint32_t species;
    uint32_t step;
};

struct answer {
    double concentrations[5];
};

static struct answer expensive(const struct question *question)
{
    struct answer answer;
    size_t at;
    for (at = 0; at < 5; at++)
        answer.concentrations[at] = question->temperature * (double)(at + question->species);
    return answer;
}

/* Saves a map, and loads the file into another one, of twice as many entries. The file is in the working
 * directory, which all processes share. */
static void save_and_load(probeline_job *job, probeline_map *map, uint64_t len, uint32_t rank)
{
    probeline_map_options options;
    probeline_map_loaded loaded;
    probeline_map *other;
    uint64_t saved;

    check(probeline_map_save(map, "answers.map", &saved), "save the map");
    expect(saved == len, "all entries are saved");
    check(probeline_map_options_init(&options, sizeof options), "options of a map");
    options.key_bytes = sizeof(struct question);
    options.value_bytes = sizeof(struct answer);
    options.entries = 2 * KEYS;
    check(probeline_map_open(job, &options, &other), "open another map");
    check(probeline_map_load(other, "answers.map", &loaded, sizeof loaded), "load the map");
    expect(loaded.entries == len, "all entries are in the file");
    expect(loaded.inserted + loaded.evicted + loaded.dropped == len, "all entries are loaded");
    expect(probeline_map_load(other, "no such file", NULL, 0) == PROBELINE_ERROR_FILE,
           "a file that is not there is an error");
    check(probeline_map_close(other), "close the other map");
    expect(rank != 0 || remove("answers.map") == 0, "the file is removed");
}

/* Looks up answers, computes those that nobody has computed, and puts them. */
static void use_map(probeline_job *job, uint32_t rank)
{
    probeline_map_options options;
    probeline_map_stats stats;
    probeline_map *map;
    uint64_t len;
    uint32_t species;

    check(probeline_map_options_init(&options, sizeof options), "options of a map");
    options.key_bytes = sizeof(struct question);
    options.value_bytes = sizeof(struct answer);
    options.entries = KEYS;
    check(probeline_map_open(job, &options, &map), "open a map");

    for (species = 0; species < 1000; species++) {
        struct question question;
        struct answer answer, right;
        probeline_outcome outcome;
        memset(&question, 0, sizeof question);
        question.temperature = 300.5;
        question.species = species;
        right = expensive(&question);
        check(probeline_map_get(map, &question, &answer, &outcome), "get");
        if (outcome == PROBELINE_ABSENT)
            check(probeline_map_put_if_absent(map, &question, &right, &outcome), "put");
        else
            expect(memcmp(&answer, &right, sizeof right) == 0, "the answer is right");
    }
    check(probeline_map_len(map, &len), "count the entries");
    expect(len > 900 && len <= 1000, "nearly all answers are there");
    check(probeline_map_get_stats(map, &stats, sizeof stats), "counters");
    expect(stats.hits + stats.misses == 1000, "every get is counted");
    printf("rank %u: %lu hits, %lu misses\n", (unsigned)rank, (unsigned long)stats.hits,
           (unsigned long)stats.misses);
    save_and_load(job, map, len, rank);
    check(probeline_map_close(map), "close the map");
}

/* Keeps many operations in flight, as a program with a loop of its own does. */
static void poll_map(probeline_job *job, uint32_t rank)
{
    probeline_map_options options;
    probeline_map *map;
    static uint64_t values[1000];
    uint64_t next = 0, ended = 0, hits = 0;

    check(probeline_map_options_init(&options, sizeof options), "options of a map");
    options.key_bytes = sizeof(uint64_t);
    options.value_bytes = sizeof(uint64_t);
    options.entries = 100000;
    check(probeline_map_open(job, &options, &map), "open a map");
    /* The first thousand operations put, the others get. */
    while (ended < 2000) {
        probeline_finished finished[16];
        size_t count, at;
        uint64_t key = (uint64_t)rank << 32 | next % 1000;
        uint64_t value = key * 7;
        probeline_status status = PROBELINE_ERROR_BUSY;
        if (next < 1000)
            status = probeline_map_submit_write(map, next, PROBELINE_PUT, &key, &value);
        else if (next < 2000 && ended >= 1000)
            status = probeline_map_submit_get(map, next, &key, &values[next - 1000]);
        if (status == PROBELINE_OK) {
            next++;
            continue;
        }
        expect(status == PROBELINE_ERROR_BUSY, "it is only busy");
        check(probeline_map_poll(map, finished, 16, &count), "poll");
        for (at = 0; at < count; at++) {
            check(finished[at].status, "an operation");
            if (finished[at].tag < 1000 || finished[at].outcome != PROBELINE_FOUND)
                continue;
            key = (uint64_t)rank << 32 | (finished[at].tag - 1000);
            expect(values[finished[at].tag - 1000] == key * 7, "the value is that of the key");
            hits++;
        }
        ended += count;
    }
    expect(hits > 900, "nearly all keys are there");
    check(probeline_map_close(map), "close the map");
}

int main(int argc, char **argv)
{
    probeline_job_options options;
    probeline_job *job;
    uint32_t rank, ranks;

    check(probeline_job_options_init(&options, sizeof options), "options of a job");
    options.ranks = argc > 1 ? (uint32_t)atoi(argv[1]) : 1;
    check(probeline_job_open(&options, &job), "open the job");
    check(probeline_job_rank(job, &rank, &ranks), "rank");
    use_table(job, 63);
    use_table(job, WIDE_WORDS * 64);
    use_map(job, rank);
    poll_map(job, rank);
    check(probeline_job_barrier(job), "barrier");
    check(probeline_job_close(job), "close the job");
    if (rank == 0)
        printf("%s: all is well with %u ranks\n", probeline_version(), (unsigned)ranks);
    return 0;
}
