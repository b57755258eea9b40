/* Arrays, counters, queues and aggregators of all ranks of a job, and what may be done wrong with them. The
 * first argument is the group, the second the number of ranks. */
#include <probeline.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
#include <thread>
#endif

#define COUNT 600u

static uint32_t rank, ranks;
static probeline_job *job;

static void expect(int status, probeline_status expected, const char *word, int line)
{
    const char *text = probeline_last_error();
    if (status == (int)expected && (status == PROBELINE_OK || strstr(text, word)))
        return;
    fprintf(stderr, "rank %u, line %d: %s (%s), not %s with \"%s\"\n", (unsigned)rank, line,
            probeline_error_text(status), text, probeline_error_text(expected), word);
    exit(1);
}

static void is_true(int condition, int line)
{
    if (condition)
        return;
    fprintf(stderr, "rank %u, line %d: not true\n", (unsigned)rank, line);
    exit(1);
}

#define EXPECT(call, expected, word) expect(call, expected, word, __LINE__)
#define INVALID(call, word) expect(call, PROBELINE_ERROR_INVALID, word, __LINE__)
#define OK(call) expect(call, PROBELINE_OK, "", __LINE__)
#define TRUE(condition) is_true(condition, __LINE__)
/* The last rank gets its own error, the others that of another rank. */
#define LAST(call, word) \
    expect(call, rank == ranks - 1 ? PROBELINE_ERROR_INVALID : PROBELINE_ERROR_OTHER_RANK, \
           rank == ranks - 1 ? word : "could not do its part", __LINE__)

/* Runs a call in another thread, which is refused. */
#ifdef __cplusplus
#define ELSEWHERE(call) \
    do { \
        probeline_status elsewhere = PROBELINE_OK; \
        std::thread([&] { elsewhere = call; }).join(); \
        TRUE(elsewhere == PROBELINE_ERROR_THREAD); \
    } while (0)
#else
#define ELSEWHERE(call) (void)0
#endif

static probeline_outcome outcomes[COUNT];

/* Polls until this many submitted operations have ended, and notes their outcomes by their tags. */
#define DRAIN(type, handle, total) \
    do { \
        probeline_finished finished[4]; \
        size_t left = total, ended, at; \
        while (left > 0) { \
            OK(probeline_##type##_poll(handle, finished, 4, &ended)); \
            for (at = 0; at < ended; at++) { \
                TRUE(finished[at].status == PROBELINE_OK); \
                outcomes[finished[at].tag] = finished[at].outcome; \
            } \
            left -= ended; \
        } \
    } while (0)

struct visits {
    uint64_t count, sum, wrong;
    size_t bytes;
    probeline_array *array;
};

static void visit_element(uint64_t index, const void *value, void *context)
{
    struct visits *visits = (struct visits *)context;
    char byte = 0;
    visits->count++;
    visits->sum += index;
    visits->wrong += (uintptr_t)value % 8 != 0 || *(const char *)value != 7;
    visits->wrong += probeline_array_get(visits->array, 0, &byte) != PROBELINE_ERROR_IN_USE;
}

/* Byte n of an element. */
static char byte_of(uint64_t index, size_t n)
{
    return (char)(index * 31 + n * 7 + 1);
}

static void use_elements(size_t bytes, int distribution)
{
    probeline_array_options options;
    probeline_array *array;
    uint64_t indices[COUNT], index, sum;
    char *values = (char *)calloc(COUNT + 1, bytes), *value = values + 1;
    struct visits visits;
    size_t n;

    OK(probeline_array_options_init(&options, sizeof options));
    options.len = COUNT;
    options.element_bytes = bytes;
    options.distribution = distribution;
    OK(probeline_array_open(job, &options, &array));
    OK(probeline_array_get(array, COUNT - 1, value));
    for (n = 0; n < bytes; n++)
        TRUE(value[n] == 0);
    OK(probeline_job_barrier(job));
    /* Each rank puts its residue class, from any address, one half of it one by one. */
    for (index = rank; index < COUNT / 2; index += ranks) {
        for (n = 0; n < bytes; n++)
            value[n] = byte_of(index, n);
        OK(probeline_array_put(array, index, value));
    }
    for (sum = 0; index < COUNT; index += ranks, sum++) {
        indices[sum] = index;
        for (n = 0; n < bytes; n++)
            value[sum * bytes + n] = byte_of(index, n);
    }
    OK(probeline_array_scatter(array, indices, value, sum));
    OK(probeline_job_barrier(job));
    for (index = 0; index < COUNT; index++)
        indices[index] = COUNT - 1 - index;
    memset(values, 0, COUNT * bytes);
    OK(probeline_array_gather(array, indices, COUNT - 1, value));
    OK(probeline_array_get(array, indices[COUNT - 1], value + (COUNT - 1) * bytes));
    for (index = 0; index < COUNT; index++)
        for (n = 0; n < bytes; n++)
            TRUE(value[index * bytes + n] == byte_of(COUNT - 1 - index, n));

    memset(values, 7, bytes);
    OK(probeline_array_fill(array, values));
    memset(&visits, 0, sizeof visits);
    visits.array = array;
    OK(probeline_array_for_each_local(array, visit_element, &visits));
    TRUE(visits.wrong == 0);
    OK(probeline_job_sum(job, visits.count, &sum));
    TRUE(sum == COUNT);
    OK(probeline_job_sum(job, visits.sum, &sum));
    TRUE(sum == (uint64_t)COUNT * (COUNT - 1) / 2);
    indices[1] = COUNT;
    INVALID(probeline_array_get(array, COUNT, value), "index 600 is beyond the last element");
    INVALID(probeline_array_gather(array, indices, 2, value), "index 600 is beyond the last element");
    INVALID(probeline_array_scatter(array, indices, value, 2), "index 600 is beyond the last element");
    if (bytes != 8) {
        INVALID(probeline_array_update(array, PROBELINE_ADD, 0, 1, NULL), "elements of 8 bytes");
        INVALID(probeline_array_compare_and_swap(array, 0, 0, 1, NULL), "elements of 8 bytes");
        INVALID(probeline_array_update_batch(array, PROBELINE_ADD, indices, indices, 1, NULL), "elements of 8");
        INVALID(probeline_array_reduce(array, PROBELINE_ADD, &sum), "elements of 8 bytes");
    }
    OK(probeline_array_close(array));
    free(values);
}

static void use_words(void)
{
    probeline_array_options options;
    probeline_array *array;
    uint64_t indices[COUNT], operands[COUNT], before[COUNT], word, index;

    OK(probeline_array_options_init(&options, sizeof options));
    options.len = COUNT;
    OK(probeline_array_open(job, &options, &array));
    /* All ranks update all words. */
    for (index = 0; index < COUNT; index++) {
        indices[index] = (index * 7 + rank) % COUNT;
        operands[index] = index;
    }
    OK(probeline_array_update_batch(array, PROBELINE_ADD, indices, operands, COUNT, before));
    OK(probeline_array_update_batch(array, PROBELINE_ADD, indices, operands, COUNT, NULL));
    OK(probeline_array_reduce(array, PROBELINE_ADD, &word));
    TRUE(word == (uint64_t)ranks * COUNT * (COUNT - 1));
    word = 5;
    OK(probeline_array_fill(array, &word));
    OK(probeline_array_update(array, PROBELINE_MAX, 0, 100 + rank, &word));
    OK(probeline_array_update(array, PROBELINE_MIN, COUNT - 1, ranks - rank - 1, NULL));
    OK(probeline_array_reduce(array, PROBELINE_MAX, &word));
    TRUE(word == 100 + ranks - 1);
    OK(probeline_array_reduce(array, PROBELINE_MIN, &word));
    TRUE(word == 0);
    /* One rank takes the word. */
    OK(probeline_array_compare_and_swap(array, 1, 5, 6 + rank, &word));
    OK(probeline_job_sum(job, word == 5, &index));
    TRUE(index == 1);
    OK(probeline_array_update(array, PROBELINE_ADD, 2, 1, &word));
    TRUE(word >= 5 && word < 5 + ranks);

    /* Submitted operations, on words that only this rank changes. */
    index = 10 + rank;
    word = 20;
    OK(probeline_array_submit_put(array, 0, index, &word));
    word = 0;
    OK(probeline_array_submit_update(array, 1, PROBELINE_ADD, 100 + index, 3, before));
    OK(probeline_array_submit_compare_and_swap(array, 2, 200 + index, 5, 9, NULL));
    DRAIN(array, array, 3);
    OK(probeline_array_submit_get(array, 3, index, before + 1));
    OK(probeline_array_submit_compare_and_swap(array, 4, 200 + index, 5, 8, before + 2));
    DRAIN(array, array, 2);
    TRUE(before[0] == 5 && before[1] == 20 && before[2] == 9);
    TRUE(outcomes[0] == PROBELINE_FOUND && outcomes[3] == PROBELINE_FOUND);
    for (index = 0; index < options.operations; index++)
        OK(probeline_array_submit_get(array, index, 10 + rank, before + index));
    EXPECT(probeline_array_submit_get(array, index, 0, before), PROBELINE_ERROR_BUSY, "poll");
    DRAIN(array, array, index);
    while (index > 0)
        TRUE(before[--index] == 20);
    INVALID(probeline_array_submit_get(array, 0, COUNT, &word), "index 600 is beyond the last element");
    INVALID(probeline_array_submit_get(array, 0, 0, NULL), "the value is NULL");
    INVALID(probeline_array_submit_put(array, 0, 0, NULL), "the value is NULL");
    INVALID(probeline_array_submit_update(array, 0, 3, 0, 1, NULL), "operation is 3");
    INVALID(probeline_array_poll(array, NULL, 1, NULL), "finished is NULL");

    INVALID(probeline_array_update(array, 3, 0, 1, NULL), "operation is 3: give PROBELINE_ADD, ");
    INVALID(probeline_array_gather(array, (uint64_t *)((char *)before + 1), 1, operands), "not aligned to 8");
    INVALID(probeline_array_update_batch(array, -1, indices, operands, 1, before), "operation is -1");
    INVALID(probeline_array_gather(array, indices, (size_t)-1, before), "memory");
    INVALID(probeline_array_gather(array, NULL, 1, before), "the index is NULL");
    INVALID(probeline_array_gather(array, indices, 1, NULL), "the value is NULL");
    INVALID(probeline_array_scatter(array, indices, NULL, 1), "the value is NULL");
    INVALID(probeline_array_get(NULL, 0, &word), "array is NULL");
    INVALID(probeline_array_get(array, 0, NULL), "the value is NULL");
    INVALID(probeline_array_put(array, 0, NULL), "the value is NULL");
    INVALID(probeline_array_for_each_local(array, NULL, NULL), "visit is NULL");
    OK(probeline_array_gather(array, NULL, 0, NULL));
    LAST(probeline_array_fill(array, rank == ranks - 1 ? NULL : &word), "value is NULL");
    LAST(probeline_array_reduce(array, rank == ranks - 1 ? 9 : PROBELINE_ADD, &word), "operation is 9");
    ELSEWHERE(probeline_array_get(array, 0, &word));
    EXPECT(probeline_job_close(job), PROBELINE_ERROR_IN_USE, "before the job");
    OK(probeline_array_close(array));
}

#define BAD(type, field, bad, text) \
    do { \
        probeline_##type##_options bad_options; \
        OK(probeline_##type##_options_init(&bad_options, sizeof bad_options)); \
        GOOD; \
        bad_options.field = bad; \
        INVALID(probeline_##type##_open(job, &bad_options, &opened), text); \
        TRUE(opened == NULL); \
    } while (0)

static void use_arrays(void)
{
    static const size_t sizes[] = { 1, 8, 24, 100, 1024 };
    probeline_array_options options;
    probeline_array *opened;
    size_t n;

    use_words();
    for (n = 0; n < sizeof sizes / sizeof *sizes; n++) {
        use_elements(sizes[n], PROBELINE_DISTRIBUTION_BLOCK);
        use_elements(sizes[n], PROBELINE_DISTRIBUTION_CYCLIC);
    }
#define GOOD bad_options.len = 10
    BAD(array, len, 0, "len is 0: give 1 to ");
    BAD(array, len, UINT64_MAX, "len is ");
    BAD(array, element_bytes, 0, "element_bytes is 0: give 1 to 1024");
    BAD(array, element_bytes, 1025, "element_bytes is 1025");
    BAD(array, distribution, 2, "give PROBELINE_DISTRIBUTION_BLOCK, PROBELINE_DISTRIBUTION_CYCLIC");
    BAD(array, operations, 0, "operations is 0");
    BAD(array, operations, 65537, "operations is 65537");
    BAD(array, direct, 2, "direct is 2");
#undef GOOD
    INVALID(probeline_array_open(job, NULL, &opened), "len is 0");
    OK(probeline_array_options_init(&options, sizeof options));
    options.len = (uint64_t)1 << 48;
    options.element_bytes = 1024;
    EXPECT(probeline_array_open(job, &options, &opened), PROBELINE_ERROR_OPEN, "");
    options.len = 10 + rank;
    options.element_bytes = 8;
    if (ranks > 1)
        EXPECT(probeline_array_open(job, &options, &opened), PROBELINE_ERROR_DIFFERS, "its len is ");
    options.len = 10;
    LAST(probeline_array_open(job, &options, rank == ranks - 1 ? NULL : &opened), "array is NULL");
    OK(probeline_array_close(NULL));
}

struct counted {
    uint64_t keys, counts;
};

static void visit_key(uint64_t key, uint64_t count, void *context)
{
    struct counted *counted = (struct counted *)context;
    counted->keys += key;
    counted->counts += count;
}

static void use_counters(void)
{
    probeline_counters_options options;
    probeline_counters *counters, *opened;
    struct counted counted = { 0, 0 };
    uint64_t keys[COUNT], counts[COUNT], n, count, full, largest;

    OK(probeline_counters_options_init(&options, sizeof options));
    options.keys = 10000;
    options.key_bits = 42;
    OK(probeline_counters_open(job, &options, &counters));
    for (n = 0; n < COUNT; n++)
        keys[n] = n % 100;
    OK(probeline_counters_add_batch(counters, keys, COUNT, &count));
    TRUE(count == 0);
    OK(probeline_counters_add(counters, 1000 + rank, 40, &count, &full));
    TRUE(count == 0 && full == 0);
    OK(probeline_counters_add(counters, 1000 + rank, 2, &count, &full));
    TRUE(count == 40 && full == 0);
    OK(probeline_counters_len(counters, &count));
    TRUE(count == 100 + ranks);
    OK(probeline_counters_get_batch(counters, keys, COUNT, counts));
    for (n = 0; n < COUNT; n++)
        TRUE(counts[n] == 6 * ranks);
    OK(probeline_counters_get(counters, 1000 + (rank + 1) % ranks, &count));
    TRUE(count == 42);
    OK(probeline_counters_get(counters, 5000, &count));
    TRUE(count == 0);
    OK(probeline_counters_for_each_local(counters, visit_key, &counted));
    OK(probeline_job_sum(job, counted.keys, &count));
    TRUE(count == 4950 + 1000 * ranks + ranks * (ranks - 1) / 2);
    OK(probeline_job_sum(job, counted.counts, &count));
    TRUE(count == (uint64_t)ranks * (COUNT + 42));
    /* Counts stay at the largest one. */
    OK(probeline_counters_max_count(counters, &largest));
    OK(probeline_counters_add(counters, 7, largest, NULL, &full));
    OK(probeline_counters_add(counters, 7, 1, &count, &full));
    TRUE(count == largest);

    OK(probeline_counters_submit_add(counters, 0, 3000 + rank, 7, &count));
    OK(probeline_counters_submit_get(counters, 1, 5000, counts));
    DRAIN(counters, counters, 2);
    TRUE(count == 0 && outcomes[0] == PROBELINE_ABSENT && counts[0] == 0 && outcomes[1] == PROBELINE_ABSENT);
    OK(probeline_counters_submit_add(counters, 2, 3000 + rank, 1, NULL));
    DRAIN(counters, counters, 1);
    OK(probeline_counters_submit_get(counters, 3, 3000 + rank, &count));
    DRAIN(counters, counters, 1);
    TRUE(count == 8 && outcomes[2] == PROBELINE_FOUND && outcomes[3] == PROBELINE_FOUND);

    keys[1] = (uint64_t)1 << 42;
    INVALID(probeline_counters_submit_add(counters, 0, keys[1], 1, NULL), "the key has 43 bits");
    INVALID(probeline_counters_poll(NULL, NULL, 0, NULL), "counters is NULL");
    INVALID(probeline_counters_add_batch(counters, keys, 2, &count), "the key has 43 bits");
    INVALID(probeline_counters_get_batch(counters, keys, 2, counts), "the key has 43 bits");
    INVALID(probeline_counters_add(counters, keys[1], 1, &count, &full), "the key has 43 bits");
    INVALID(probeline_counters_get(counters, keys[1], &count), "the key has 43 bits");
    INVALID(probeline_counters_add(counters, 1, 1, &count, NULL), "full is NULL");
    INVALID(probeline_counters_get(counters, 1, NULL), "count is NULL");
    INVALID(probeline_counters_add_batch(counters, keys, 1, NULL), "full is NULL");
    INVALID(probeline_counters_add_batch(counters, NULL, 1, &count), "keys is NULL");
    INVALID(probeline_counters_get_batch(counters, keys, 1, NULL), "counts is NULL");
    INVALID(probeline_counters_get(NULL, 1, &count), "counters is NULL");
    INVALID(probeline_counters_for_each_local(counters, NULL, NULL), "visit is NULL");
    ELSEWHERE(probeline_counters_get(counters, 1, &count));
    OK(probeline_counters_clear(counters));
    OK(probeline_counters_len(counters, &count));
    TRUE(count == 0);
    OK(probeline_counters_close(counters));
    OK(probeline_counters_close(NULL));

    /* Room for some of the keys. */
    options.keys = 1;
    options.key_bits = 20;
    OK(probeline_counters_open(job, &options, &counters));
    for (n = 0; n < COUNT; n++)
        keys[n] = n;
    OK(probeline_counters_add_batch(counters, keys, COUNT, &count));
    TRUE(count > 0 && count < COUNT);
    OK(probeline_counters_get_batch(counters, keys, COUNT, counts));
    for (n = 0, largest = 0; n < COUNT; n++)
        largest += counts[n] == 0;
    TRUE(largest == count);
    for (n = 0; counts[n] != 0; n++)
        ;
    OK(probeline_counters_add(counters, n, 1, NULL, &full));
    TRUE(full == 1);
    OK(probeline_counters_submit_add(counters, 0, n, 1, NULL));
    DRAIN(counters, counters, 1);
    TRUE(outcomes[0] == PROBELINE_FULL);
    OK(probeline_counters_close(counters));
#define GOOD bad_options.keys = 1000
    BAD(counters, keys, 0, "keys is 0");
    BAD(counters, keys, UINT64_MAX, "keys is ");
    BAD(counters, key_bits, 0, "key_bits is 0");
    BAD(counters, key_bits, 63, "key_bits is 63: give 1 to 62");
    BAD(counters, operations, 0, "operations is 0");
    BAD(counters, direct, -1, "direct is -1");
#undef GOOD
#define GOOD bad_options.keys = 1
    BAD(counters, key_bits, 62, "leaves no bits for counts");
#undef GOOD
}

struct task {
    uint64_t number;
    uint32_t by[3];
};

static void use_queues(void)
{
    probeline_queue_options options;
    probeline_queue *queue, *opened;
    struct task tasks[COUNT + 1], task;
    uint32_t next = (rank + 1) % ranks;
    size_t n, count;

    OK(probeline_queue_options_init(&options, sizeof options));
    options.value_bytes = sizeof task;
    options.capacity = COUNT;
    OK(probeline_queue_open(job, &options, &queue));
    task.number = 77;
    OK(probeline_queue_pop(queue, rank, &task, &count));
    TRUE(count == 0 && task.number == 77);
    OK(probeline_job_barrier(job));
    memset(tasks, 0, sizeof tasks);
    for (n = 0; n < COUNT; n++) {
        tasks[n].number = n;
        tasks[n].by[2] = rank;
    }
    OK(probeline_queue_push(queue, next, tasks, &count));
    TRUE(count == 1);
    /* The ring has room for all but one of these. */
    OK(probeline_queue_push_batch(queue, next, tasks + 1, COUNT, &count));
    TRUE(count == COUNT - 1);
    OK(probeline_queue_push(queue, next, tasks, &count));
    TRUE(count == 0);
    OK(probeline_job_barrier(job));
    OK(probeline_queue_pop(queue, rank, &task, &count));
    TRUE(count == 1 && task.number == 0 && task.by[2] == (rank + ranks - 1) % ranks);
    memset(tasks, 0, sizeof tasks);
    OK(probeline_queue_pop_batch(queue, rank, tasks, COUNT, &count));
    TRUE(count == COUNT - 1);
    for (n = 0; n < count; n++)
        TRUE(tasks[n].number == n + 1 && tasks[n].by[2] == (rank + ranks - 1) % ranks);
    OK(probeline_queue_pop_batch(queue, rank, tasks, 1, &count));
    TRUE(count == 0);

    task.number = 5;
    OK(probeline_queue_submit_push(queue, 0, rank, &task));
    task.number = 0;
    DRAIN(queue, queue, 1);
    OK(probeline_queue_submit_pop(queue, 1, rank, &task));
    DRAIN(queue, queue, 1);
    TRUE(task.number == 5 && outcomes[0] == PROBELINE_INSERTED && outcomes[1] == PROBELINE_FOUND);
    OK(probeline_queue_submit_pop(queue, 2, rank, &task));
    DRAIN(queue, queue, 1);
    TRUE(task.number == 5 && outcomes[2] == PROBELINE_ABSENT);
    INVALID(probeline_queue_submit_push(queue, 0, ranks, &task), "host is ");
    INVALID(probeline_queue_submit_push(queue, 0, 0, NULL), "the value is NULL");
    INVALID(probeline_queue_submit_pop(queue, 0, 0, NULL), "the value is NULL");
    INVALID(probeline_queue_poll(queue, NULL, 1, &count), "finished is NULL");

    INVALID(probeline_queue_push(queue, ranks, &task, &count), "host is ");
    INVALID(probeline_queue_pop_batch(queue, ranks, &task, 1, &count), "host is ");
    INVALID(probeline_queue_push(queue, 0, NULL, &count), "the value is NULL");
    INVALID(probeline_queue_push(queue, 0, &task, NULL), "pushed is NULL");
    INVALID(probeline_queue_pop(queue, 0, NULL, &count), "the value is NULL");
    INVALID(probeline_queue_pop(queue, 0, &task, NULL), "popped is NULL");
    INVALID(probeline_queue_pop(NULL, 0, &task, &count), "queue is NULL");
    INVALID(probeline_queue_push_batch(queue, 0, NULL, 2, &count), "the value is NULL");
    INVALID(probeline_queue_pop_batch(queue, 0, tasks, (size_t)-1, &count), "larger than memory");
    INVALID(probeline_queue_skip(queue, rank, &count), "did not return PROBELINE_ERROR_UNFINISHED");
    ELSEWHERE(probeline_queue_pop(queue, 0, &task, &count));
    OK(probeline_queue_close(queue));
    OK(probeline_queue_close(NULL));
#define GOOD bad_options.value_bytes = 8
    BAD(queue, value_bytes, 0, "value_bytes is 0");
    BAD(queue, value_bytes, 1025, "value_bytes is 1025: give 1 to 1024");
    BAD(queue, capacity, 0, "capacity is 0");
    BAD(queue, capacity, UINT64_MAX, "capacity is ");
    BAD(queue, operations, 0, "operations is 0");
#undef GOOD
    options.capacity = 10 + rank;
    if (ranks > 1)
        EXPECT(probeline_queue_open(job, &options, &opened), PROBELINE_ERROR_DIFFERS, "its capacity is ");
    options.capacity = (uint64_t)1 << 48;
    EXPECT(probeline_queue_open(job, &options, &opened), PROBELINE_ERROR_OPEN, "");
}

struct received {
    uint64_t next[8], count, wrong;
    probeline_aggregator *aggregator;
    probeline_counters *counters;
};

static void deliver(uint32_t from, const void *message, void *context)
{
    struct received *received = (struct received *)context;
    const struct task *task = (const struct task *)message;
    received->wrong += task->by[0] != from || task->number != received->next[from];
    received->next[from]++;
    received->count++;
    received->wrong +=
        probeline_aggregator_send(received->aggregator, 0, message) != PROBELINE_ERROR_IN_USE;
}

/* No collective call runs in a flush, and the calls that try change nothing. */
static void deliver_and_wait(uint32_t from, const void *message, void *context)
{
    uint64_t sum;

    deliver(from, message, context);
    ((struct received *)context)->wrong += probeline_job_barrier(job) != PROBELINE_ERROR_IN_USE;
    ((struct received *)context)->wrong += probeline_job_sum(job, 1, &sum) != PROBELINE_ERROR_IN_USE;
    ((struct received *)context)->wrong +=
        probeline_counters_close(((struct received *)context)->counters) != PROBELINE_ERROR_IN_USE;
}

static void use_aggregators(void)
{
    probeline_aggregator_options options;
    probeline_aggregator *aggregator, *opened;
    struct received received;
    struct task task;
    uint64_t sent;
    uint32_t to;
    int busy = 0;

    memset(&received, 0, sizeof received);
    memset(&task, 0, sizeof task);
    OK(probeline_aggregator_options_init(&options, sizeof options));
    options.message_bytes = sizeof task;
    options.block = 16;
    OK(probeline_aggregator_open(job, &options, &aggregator));
    OK(probeline_counters_open(job, NULL, &received.counters));
    received.aggregator = aggregator;
    task.by[0] = rank;
    for (sent = 0; sent < 5000; sent++)
        for (to = 0; to < ranks; to++) {
            probeline_status status;
            task.number = sent;
            while ((status = probeline_aggregator_send(aggregator, to, &task)) == PROBELINE_ERROR_BUSY) {
                TRUE(strstr(probeline_last_error(), "call probeline_aggregator_progress") != NULL);
                OK(probeline_aggregator_progress(aggregator, deliver, &received));
                busy++;
            }
            OK(status);
        }
    TRUE(busy > 0);
    INVALID(probeline_aggregator_flush(aggregator, NULL, NULL), "deliver is NULL");
    OK(probeline_aggregator_flush(aggregator, deliver_and_wait, &received));
    TRUE(received.wrong == 0 && received.count == (uint64_t)ranks * 5000);
    OK(probeline_counters_close(received.counters));
    OK(probeline_aggregator_flush(aggregator, deliver, &received));

    INVALID(probeline_aggregator_send(aggregator, ranks, &task), "to is ");
    INVALID(probeline_aggregator_send(aggregator, 0, NULL), "message is NULL");
    INVALID(probeline_aggregator_send(NULL, 0, &task), "aggregator is NULL");
    INVALID(probeline_aggregator_progress(aggregator, NULL, NULL), "deliver is NULL");
    ELSEWHERE(probeline_aggregator_send(aggregator, 0, &task));
    ELSEWHERE(probeline_aggregator_close(aggregator));
    /* Nobody closes it while a rank has messages that nobody gets. */
    task.number = 5000;
    if (rank == ranks - 1)
        OK(probeline_aggregator_send(aggregator, 0, &task));
    LAST(probeline_aggregator_close(aggregator), "sent after the last flush are not delivered");
    OK(probeline_aggregator_flush(aggregator, deliver, &received));
    TRUE(received.wrong == 0);
    OK(probeline_aggregator_close(aggregator));
    options.blocks = 3 + rank;
    if (ranks > 1)
        EXPECT(probeline_aggregator_open(job, &options, &opened), PROBELINE_ERROR_DIFFERS, "its blocks is ");
    OK(probeline_aggregator_close(NULL));
#define GOOD bad_options.message_bytes = 8
    BAD(aggregator, message_bytes, 0, "message_bytes is 0");
    BAD(aggregator, message_bytes, 1025, "message_bytes is 1025: give 1 to 1024");
    BAD(aggregator, block, 0, "block is 0");
    BAD(aggregator, block, 65537, "block is 65537");
    BAD(aggregator, blocks, 0, "blocks is 0");
    BAD(aggregator, blocks, 65, "blocks is 65: give 1 to 64");
    BAD(aggregator, operations, 0, "operations is 0");
#undef GOOD
}

int main(int count, char **arguments)
{
    probeline_job_options options;
    const char *group = count > 2 ? arguments[1] : "";

    OK(probeline_job_options_init(&options, sizeof options));
    options.ranks = count > 2 ? (uint32_t)atoi(arguments[2]) : 1;
    OK(probeline_job_open(&options, &job));
    OK(probeline_job_rank(job, &rank, &ranks));
    if (strcmp(group, "arrays") == 0)
        use_arrays();
    else if (strcmp(group, "counters") == 0)
        use_counters();
    else if (strcmp(group, "queues") == 0)
        use_queues();
    else
        use_aggregators();
    OK(probeline_job_close(job));
    printf("%s: all is well\n", group);
    return 0;
}
