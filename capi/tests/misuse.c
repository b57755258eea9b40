/* What a program may do wrong, and what it is told. */
#include <probeline.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
#include <thread>
#endif

static int failures;

static void expect(int status, probeline_status expected, const char *word, int line)
{
    const char *text = probeline_last_error();
    int right = status == (int)expected && (status == PROBELINE_OK || strstr(text, word));
    if (right)
        return;
    fprintf(stderr, "line %d: %s (%s), not %s with \"%s\"\n", line, probeline_error_text(status), text,
            probeline_error_text(expected), word);
    failures++;
}

#define INVALID(call, word) expect(call, PROBELINE_ERROR_INVALID, word, __LINE__)
#define OK(call) expect(call, PROBELINE_OK, "", __LINE__)

static probeline_map *visited;
static probeline_status nested;

static void visit(const void *key, const void *value, void *context)
{
    (void)key;
    (void)value;
    ++*(int *)context;
    nested = probeline_map_advance_age(visited);
}

int main(void)
{
    probeline_job_options job_options;
    probeline_table_options table_options;
    probeline_map_options map_options;
    probeline_job *job = NULL;
    probeline_table *table = NULL;
    probeline_map *map = NULL;
    probeline_outcome outcome = PROBELINE_ABSENT;
    probeline_finished finished[2];
    uint64_t key = 5, value = 6, len = 0;
    size_t count = 9;
    int visits = 0;

    if (*probeline_last_error() != '\0' || strcmp(probeline_error_text(99), "unknown status") != 0)
        failures++;

    memset(&job_options, 0, sizeof job_options);
    INVALID(probeline_job_open(&job_options, &job), "call probeline_job_options_init first");
    INVALID(probeline_job_options_init(NULL, sizeof job_options), "NULL");
    INVALID(probeline_job_options_init(&job_options, 3), "sizeof");
    INVALID(probeline_job_options_init(&job_options, (size_t)-8), "sizeof");
    INVALID(probeline_job_options_init((probeline_job_options *)((char *)&job_options + 1),
                                       sizeof job_options), "not aligned");
    OK(probeline_job_options_init(&job_options, sizeof job_options));
    INVALID(probeline_job_open(&job_options, NULL), "job is NULL");
    job_options.transport = 77;
    INVALID(probeline_job_open(&job_options, &job), "transport is 77");
    job_options.transport = PROBELINE_TRANSPORT_SHM;
    job_options.start = PROBELINE_START_PLACED;
    INVALID(probeline_job_open(&job_options, &job), "rendezvous");
    job_options.rendezvous = "nowhere";
    job_options.ranks = 2;
    expect(probeline_job_open(&job_options, &job), PROBELINE_ERROR_JOIN, "", __LINE__);
    OK(probeline_job_options_init(&job_options, sizeof job_options));
    job_options.transport = PROBELINE_TRANSPORT_SHM;
    OK(probeline_job_open(&job_options, &job));
    INVALID(probeline_job_barrier(NULL), "job is NULL");
    OK(probeline_job_rank(job, NULL, NULL));
    OK(probeline_job_all_gather(job, &key, sizeof key, &len));
    if (len != key)
        failures++;

    OK(probeline_table_options_init(&table_options, sizeof table_options));
    table_options.key_bits = 65;
    INVALID(probeline_table_open(job, &table_options, &table), "key_bits is 65");
    table_options.key_bits = 63;
    table_options.chunk_buckets = 12;
    INVALID(probeline_table_open(job, &table_options, &table), "12");
    table_options.chunk_buckets = 16;
    table_options.operations = 0;
    INVALID(probeline_table_open(job, &table_options, &table), "operations is 0");
    OK(probeline_table_open(job, NULL, &table));
    INVALID(probeline_table_find(table, NULL, &outcome), "key is NULL");
    INVALID(probeline_table_batch(table, 9, &key, 1, &outcome), "operation is 9");
    INVALID(probeline_table_batch(table, PROBELINE_FIND, &key, (size_t)-1, &outcome), "memory");
    INVALID(probeline_table_batch(table, PROBELINE_FIND, (uint64_t *)((char *)&key + 1), 1, &outcome),
            "aligned");
    OK(probeline_table_batch(table, PROBELINE_FIND, NULL, 0, NULL));
    OK(probeline_table_find_or_put(table, &key, NULL));
    key = UINT64_MAX;
    INVALID(probeline_table_find_or_put(table, &key, &outcome), "");
    key = 5;
    expect(probeline_job_close(job), PROBELINE_ERROR_IN_USE, "before the job", __LINE__);

    OK(probeline_map_options_init(&map_options, sizeof map_options));
    INVALID(probeline_map_open(job, &map_options, &map), "key_bytes is 0");
    map_options.key_bytes = sizeof key;
    map_options.value_bytes = 8193;
    INVALID(probeline_map_open(job, &map_options, &map), "8193");
    map_options.value_bytes = sizeof value;
    map_options.candidates = 9;
    INVALID(probeline_map_open(job, &map_options, &map), "candidates");
    map_options.candidates = 6;
    map_options.claim_ticks = 300;
    INVALID(probeline_map_open(job, &map_options, &map), "claim_ticks");
    map_options.claim_ticks = 8;
    map_options.operations = 1;
    OK(probeline_map_open(job, &map_options, &map));
    INVALID(probeline_map_get(map, &key, NULL, &outcome), "value is NULL");
    INVALID(probeline_map_get(map, &key, &value, NULL), "outcome is NULL");
    INVALID(probeline_map_write_batch(map, PROBELINE_GET, &key, &value, 1, &outcome), "get_batch");
    INVALID(probeline_map_for_each_local(map, NULL, NULL), "visit is NULL");
    OK(probeline_map_put(map, &key, &value, &outcome));
    OK(probeline_map_submit_get(map, 1, &key, &value));
    expect(probeline_map_submit_get(map, 2, &key, &value), PROBELINE_ERROR_BUSY, "poll", __LINE__);
    while (count != 1)
        OK(probeline_map_poll(map, finished, 2, &count));
    if (finished[0].tag != 1 || finished[0].outcome != PROBELINE_FOUND || value != 6)
        failures++;
    visited = map;
    OK(probeline_map_for_each_local(map, visit, &visits));
    if (visits != 1 || nested != PROBELINE_ERROR_IN_USE)
        failures++;
#ifdef __cplusplus
    {
        probeline_status elsewhere = PROBELINE_OK;
        std::thread([&] { elsewhere = probeline_map_advance_age(map); }).join();
        if (elsewhere != PROBELINE_ERROR_THREAD)
            failures++;
    }
#endif

    OK(probeline_map_close(map));
    OK(probeline_table_close(table));
    OK(probeline_map_close(NULL));
    OK(probeline_job_close(job));
    OK(probeline_job_close(NULL));
    if (failures == 0)
        printf("all misuse was reported\n");
    return failures != 0;
}
