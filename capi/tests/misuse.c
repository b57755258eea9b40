/* What a program may do wrong, and what it is told. */
#include <probeline.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/stat.h>

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

/* Each opens a job, a table or a map with one bad value, all else being right. */
#define BAD_JOB(field, bad) \
    do { \
        OK(probeline_job_options_init(&job_options, sizeof job_options)); \
        job_options.transport = PROBELINE_TRANSPORT_SHM; \
        job_options.field = bad; \
        INVALID(probeline_job_open(&job_options, &job), #field " is " #bad ": give "); \
    } while (0)
#define BAD_TABLE(field, bad) \
    do { \
        OK(probeline_table_options_init(&table_options, sizeof table_options)); \
        table_options.field = bad; \
        INVALID(probeline_table_open(job, &table_options, &table), #field " is "); \
    } while (0)
#define BAD_MAP(field, bad) \
    do { \
        OK(probeline_map_options_init(&map_options, sizeof map_options)); \
        map_options.key_bytes = sizeof key; \
        map_options.value_bytes = sizeof value; \
        map_options.field = bad; \
        INVALID(probeline_map_open(job, &map_options, &map), #field " is "); \
    } while (0)

static probeline_map *visited;
static probeline_status nested;

static void visit(const void *key, const void *value, void *context)
{
    (void)key;
    (void)value;
    ++*(int *)context;
    nested = probeline_map_advance_age(visited);
}

/* A transport has fewer operations in flight than an option may say. No device is opened. */
static void refuse_operations(int transport, uint32_t narrow, uint32_t wide, uint32_t of_map)
{
    probeline_job_options job_options;
    probeline_table_options table_options;
    probeline_map_options map_options;
    probeline_job *job = NULL;
    probeline_table *table;
    probeline_map *map;
    char text[64];

    OK(probeline_job_options_init(&job_options, sizeof job_options));
    job_options.transport = transport;
    OK(probeline_job_open(&job_options, &job));
    OK(probeline_table_options_init(&table_options, sizeof table_options));
    table_options.operations = narrow + 1;
    sprintf(text, ": give 1 to %u over the transport ", (unsigned)narrow);
    INVALID(probeline_table_open(job, &table_options, &table), text);
    table_options.key_bits = 128;
    table_options.operations = wide + 1;
    sprintf(text, ": give 1 to %u over the transport ", (unsigned)wide);
    INVALID(probeline_table_open(job, &table_options, &table), text);
    OK(probeline_map_options_init(&map_options, sizeof map_options));
    map_options.key_bytes = map_options.value_bytes = 8;
    map_options.operations = of_map + 1;
    sprintf(text, ": give 1 to %u over the transport ", (unsigned)of_map);
    INVALID(probeline_map_open(job, &map_options, &map), text);
    OK(probeline_job_close(job));
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
    FILE *file;

    if (*probeline_last_error() != '\0' || strcmp(probeline_error_text(99), "unknown status") != 0)
        failures++;

    refuse_operations(PROBELINE_TRANSPORT_UCX, 21845, 16384, 32768);
    refuse_operations(PROBELINE_TRANSPORT_VERBS, 5461, 4096, 8192);

    memset(&job_options, 0, sizeof job_options);
    INVALID(probeline_job_open(&job_options, &job), "call probeline_job_options_init first");
    INVALID(probeline_job_options_init(NULL, sizeof job_options), "NULL");
    INVALID(probeline_job_options_init(&job_options, 3), "sizeof");
    INVALID(probeline_job_options_init(&job_options, (size_t)-8), "sizeof");
    INVALID(probeline_job_options_init((probeline_job_options *)((char *)&job_options + 1),
                                       sizeof job_options), "not aligned");
    OK(probeline_job_options_init(&job_options, sizeof job_options));
    INVALID(probeline_job_open(&job_options, NULL), "job is NULL");
    BAD_JOB(transport, 77);
    BAD_JOB(transport, -1);
    BAD_JOB(start, 2);
    BAD_JOB(start, -1);
    BAD_JOB(ranks, 0);
    BAD_JOB(ranks, 4097);
    BAD_JOB(rank, 4096);
    BAD_JOB(allow_remote, 77);
    BAD_JOB(word_reads_whole, -1);
    BAD_JOB(join_limit_s, 0);
    BAD_JOB(collective_limit_s, 0);
    BAD_JOB(close_limit_s, 0);
    BAD_JOB(port, -5);
    BAD_JOB(port, 256);
    BAD_JOB(gid_index, -2);
    BAD_JOB(gid_index, 256);
    OK(probeline_job_options_init(&job_options, sizeof job_options));
    job_options.transport = PROBELINE_TRANSPORT_MPI;
    expect(probeline_job_open(&job_options, &job), PROBELINE_ERROR_UNSUPPORTED, "built without", __LINE__);
    job_options.transport = PROBELINE_TRANSPORT_SHM;
    job_options.start = PROBELINE_START_MANUAL;
    INVALID(probeline_job_open(&job_options, &job), "rendezvous");
    job_options.rendezvous = "nowhere";
    job_options.ranks = 2;
    INVALID(probeline_job_open(&job_options, &job), "secret");
    job_options.secret_file = "no such file";
    INVALID(probeline_job_open(&job_options, &job), "no such file");
    umask(077);
    file = fopen("secret", "w");
    if (file == NULL || fputs("0123456789abcdef", file) < 0 || fclose(file) != 0)
        failures++;
    job_options.rank = 2;
    job_options.secret_file = "secret";
    INVALID(probeline_job_open(&job_options, &job), "rank 2 does not exist in a job of 2");
    job_options.rank = 1;
    INVALID(probeline_job_open(&job_options, &job), "nowhere");
    job_options.rendezvous = "0.0.0.0:1";
    INVALID(probeline_job_open(&job_options, &job), ": give allow_remote = 1, or use 127.0.0.1");
    job_options.rendezvous = "127.0.0.1:1";
    job_options.join_limit_s = 1;
    expect(probeline_job_open(&job_options, &job), PROBELINE_ERROR_JOIN, "within 1 s", __LINE__);
    OK(probeline_job_options_init(&job_options, sizeof job_options));
    job_options.transport = PROBELINE_TRANSPORT_SHM;
    OK(probeline_job_open(&job_options, &job));
    INVALID(probeline_job_barrier(NULL), "job is NULL");
    OK(probeline_job_rank(job, NULL, NULL));
    OK(probeline_job_all_gather(job, &key, sizeof key, &len));
    if (len != key)
        failures++;

    BAD_TABLE(keys, 0);
    BAD_TABLE(keys, UINT64_MAX);
    BAD_TABLE(key_bits, 0);
    BAD_TABLE(key_bits, 65);
    BAD_TABLE(key_bits, 4160);
    BAD_TABLE(operations, 0);
    BAD_TABLE(operations, 65537);
    BAD_TABLE(chunk_buckets, 0);
    BAD_TABLE(chunk_buckets, 7);
    BAD_TABLE(chunk_buckets, 12);
    BAD_TABLE(chunk_buckets, 1u << 23);
    BAD_TABLE(max_chunks, 0);
    BAD_TABLE(max_chunks, 65537);
    BAD_TABLE(direct, 5);
    OK(probeline_table_options_init(&table_options, sizeof table_options));
    table_options.chunk_buckets = 65536;
    table_options.keys = 100;
    INVALID(probeline_table_open(job, &table_options, &table), "8 to 136");
    table_options.chunk_buckets = 32;
    /* The largest numbers ask for more memory than there is. */
    for (key = 0; key < 2; key++) {
        table_options.key_bits = key == 0 ? 63 : 64;
        table_options.keys = (uint64_t)1 << 48;
        table_options.operations = 65536;
        expect(probeline_table_open(job, &table_options, &table), PROBELINE_ERROR_OPEN, "GiB of memory", __LINE__);
    }
    key = 5;
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

    BAD_MAP(key_bytes, 0);
    BAD_MAP(key_bytes, 1025);
    BAD_MAP(key_bytes, SIZE_MAX);
    BAD_MAP(value_bytes, 0);
    BAD_MAP(value_bytes, 8193);
    BAD_MAP(entries, 0);
    BAD_MAP(entries, UINT64_MAX);
    BAD_MAP(buckets_per_rank, UINT64_MAX);
    BAD_MAP(candidates, 0);
    BAD_MAP(candidates, 9);
    BAD_MAP(operations, 0);
    BAD_MAP(operations, 65537);
    BAD_MAP(claim_ticks, 0);
    BAD_MAP(claim_ticks, 300);
    BAD_MAP(claims_with_read, 2);
    BAD_MAP(direct, -1);
    BAD_MAP(mode, 77);
    INVALID(probeline_map_open(job, &map_options, &map), "give PROBELINE_MODE_CLAIMS, PROBELINE_MODE_PART");
    OK(probeline_map_options_init(&map_options, sizeof map_options));
    map_options.key_bytes = 1024;
    map_options.value_bytes = 8192;
    map_options.buckets_per_rank = (uint64_t)1 << 48;
    expect(probeline_map_open(job, &map_options, &map), PROBELINE_ERROR_OPEN, "slots of 1 rank on this machine need", __LINE__);
    map_options.key_bytes = sizeof key;
    map_options.value_bytes = sizeof value;
    map_options.buckets_per_rank = 0;
    map_options.mode = PROBELINE_MODE_UNLOCKED;
    OK(probeline_map_open(job, &map_options, &map));
    OK(probeline_map_get(map, &key, &value, &outcome));
    if (outcome != PROBELINE_ABSENT)
        return 1;
    OK(probeline_map_put(map, &key, &value, &outcome));
    OK(probeline_map_get(map, &key, &value, &outcome));
    if (outcome != PROBELINE_FOUND)
        return 1;
    OK(probeline_map_close(map));
    map_options.mode = PROBELINE_MODE_CLAIMS;
    map_options.operations = 1;
    OK(probeline_map_open(job, &map_options, &map));
    INVALID(probeline_map_get(map, &key, NULL, &outcome), "value is NULL");
    INVALID(probeline_map_get(map, &key, &value, NULL), "outcome is NULL");
    INVALID(probeline_map_write_batch(map, PROBELINE_GET, &key, &value, 1, &outcome), "get_batch");
    INVALID(probeline_map_for_each_local(map, NULL, NULL), "visit is NULL");
    INVALID(probeline_map_check_save(map, ""), "the name of the file is empty");
    INVALID(probeline_map_save(map, "", NULL), "the name of the file is empty");
    expect(probeline_map_check_save(map, "."), PROBELINE_ERROR_FILE, "not a regular file", __LINE__);
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
