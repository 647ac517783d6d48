/* What all kernels of an exported library share: threads, scratch memory and messages. */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* What begins with TW_ and is defined nowhere here is in backends/cpu/context.py. */
enum { TW_MAX_THREADS = 1024 };
#define TW_MAX_GRID 16777215u /* per axis, as ct.launch */

typedef union {
  int64_t integer;
  double number;
  const void *address;
} tw_word;

typedef void tw_entry(const tw_word *arguments, int64_t *context, void *scratch, void *worker);
typedef int64_t tw_watch(int64_t *context, int64_t *watched); /* see codegen/drivers.ll */

typedef struct {
  const char *where;
  bool loop;
} tw_place;

/* A kernel as the backend compiled it. */
typedef struct {
  tw_entry *entry;
  size_t scratch_bytes; /* for each thread */
  tw_watch *watch;      /* of blocks that may wait for each other, or NULL */
  double alone;         /* so many blocks are not worth waking threads for */
  const char *const *assertions;
  const tw_place *places; /* where blocks wait, if they do */
  void (*print)(int64_t site, const int64_t *addresses); /* or NULL */
} tw_kernel;

static _Thread_local char tw_message[1024];

const char *LIBRARY_NAME_last_error(void) { return tw_message; }

static int32_t tw_fail(int32_t status, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(tw_message, sizeof tw_message, format, arguments);
  va_end(arguments);
  return status;
}

typedef struct tw_worker tw_worker;

typedef struct {
  const tw_kernel *kernel;
  const tw_word *arguments;
  int64_t *context;
  tw_worker *workers; /* threads beside the calling one */
  int count;          /* of them */
  int running;        /* of them */
  char *records;      /* of all threads, one after the other, each of which has a range of blocks, or NULL */
  int ranges, taken;  /* records, and those that threads have taken */
  pthread_mutex_t lock;
  pthread_cond_t ended; /* none is running */
} tw_launch;

/* A thread, its record for the code, and its scratch memory, which follows in memory. */
struct tw_worker {
  tw_worker *next;
  tw_launch *launch;
  pthread_t thread;
  int64_t *record;
  void *scratch;
};

static size_t tw_aligned(size_t bytes) { return (bytes + TW_ALIGNMENT - 1) / TW_ALIGNMENT * TW_ALIGNMENT; }

/* NULL where there is no memory. */
static tw_worker *tw_new_worker(tw_launch *launch) {
  size_t record_at = tw_aligned(sizeof(tw_worker)), scratch_at = record_at + tw_aligned(TW_WORKER_BYTES);
  void *memory;
  if (posix_memalign(&memory, TW_ALIGNMENT, scratch_at + launch->kernel->scratch_bytes)) return NULL;
  memset(memory, 0, scratch_at);
  tw_worker *worker = memory;
  worker->launch = launch;
  worker->record = (int64_t *)((char *)memory + record_at);
  worker->scratch = (char *)memory + scratch_at;
  if (launch->ranges) {
    worker->record = (int64_t *)(launch->records + (size_t)launch->taken * TW_WORKER_BYTES);
    worker->record[TW_WORKER_SHARE] = launch->taken++;
    worker->record[TW_WORKER_SHARES] = launch->ranges;
  }
  return worker;
}

/* Of the CUDA runtime, in programs of C++: how many of the wanted threads may help, as others use processors, too; and,
   of a launch whose blocks may wait, who runs them, and whether all wait: it knows who else may change what they wait
   for. */
__attribute__((weak)) int __tw_take_threads(int wanted);
__attribute__((weak)) void __tw_give_threads(int count);
__attribute__((weak)) void __tw_takes_part(const void *launch, int begins);
__attribute__((weak)) int __tw_is_stuck(const void *launch, int stuck);

static void tw_work(tw_worker *worker) {
  const tw_launch *launch = worker->launch;
  launch->kernel->entry(launch->arguments, launch->context, worker->scratch, worker->record);
}

static void *tw_work_in_thread(void *data) {
  tw_launch *launch = ((tw_worker *)data)->launch;
  bool told = launch->kernel->watch && __tw_takes_part;
  if (told) __tw_takes_part(launch, 1);
  tw_work(data);
  if (told) __tw_takes_part(launch, 0);
  pthread_mutex_lock(&launch->lock);
  if (--launch->running == 0) pthread_cond_signal(&launch->ended);
  pthread_mutex_unlock(&launch->lock);
  return NULL;
}

/* Start one more thread; whether the system gave it. */
static bool tw_start(tw_launch *launch) {
  tw_worker *worker = tw_new_worker(launch);
  if (!worker) return false;
  pthread_mutex_lock(&launch->lock);
  bool started = !pthread_create(&worker->thread, NULL, tw_work_in_thread, worker);
  launch->running += started;
  pthread_mutex_unlock(&launch->lock);
  if (!started) {
    free(worker);
    return false;
  }
  worker->next = launch->workers;
  launch->workers = worker;
  launch->count++;
  return true;
}

/* Wait at most so long for the threads; whether none is running. */
static bool tw_wait(tw_launch *launch, int64_t nanoseconds) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  nanoseconds += until.tv_nsec;
  until.tv_sec += nanoseconds / 1000000000;
  until.tv_nsec = nanoseconds % 1000000000;
  pthread_mutex_lock(&launch->lock);
  while (launch->running && !pthread_cond_timedwait(&launch->ended, &launch->lock, &until)) continue;
  bool ended = !launch->running;
  pthread_mutex_unlock(&launch->lock);
  return ended;
}

static int32_t tw_deadlock(const tw_launch *launch) {
  char places[768];
  size_t used = 0;
  int shown = 0, waiting = 0;
  bool loops = false;
  const int64_t *context = launch->context;
  for (const tw_worker *worker = launch->workers; worker; worker = worker->next) {
    const int64_t *record = worker->record;
    if (record[TW_WORKER_WAITED] == TW_ENDED) continue;
    const tw_place *place = &launch->kernel->places[record[TW_WORKER_WAITS_AT] - 1];
    loops |= place->loop;
    if (waiting++ >= TW_SHOWN || used >= sizeof places) continue;
    long long block = record[TW_WORKER_BLOCK], x = context[TW_FIELD_GRID_X], y = context[TW_FIELD_GRID_Y];
    used += (size_t)snprintf(places + used, sizeof places - used, "%sblock (%lld, %lld, %lld) at %s", shown++ ? "; " : "",
                             block % x, block / x % y, block / x / y, place->where);
  }
  char more[32] = "";
  if (waiting > shown) snprintf(more, sizeof more, "; and %d more", waiting - shown);
  return tw_fail(TILEWRIGHT_DEADLOCK, "%s%s%s%s", TW_DEADLOCK, places, more, loops ? TW_DEADLOCK_OF_LOOPS : "");
}

/* The record of looks at all threads, or NULL. */
static int64_t *tw_watched(const tw_launch *launch) {
  int64_t *words = calloc(TW_WATCH_FIELDS + 2 * (size_t)launch->count, sizeof *words), *row = words + TW_WATCH_FIELDS;
  if (!words) return NULL;
  words[TW_WATCH_PATIENCE] = TW_PATIENCE_NS;
  words[TW_WATCH_COUNT] = launch->count;
  for (const tw_worker *worker = launch->workers; worker; worker = worker->next, row += 2)
    *row = (int64_t)(intptr_t)worker->record;
  return words;
}

/* Run the blocks, which may wait for each other, in ``count`` threads, and in more where all that have begun wait. */
static int32_t tw_supervise(tw_launch *launch, int count) {
  while (launch->count < count && tw_start(launch)) continue;
  if (!launch->count) return tw_fail(TILEWRIGHT_NO_MEMORY, "the system gives no thread for the blocks of this kernel");
  int64_t tick = TW_SHORTEST_TICK_NS, *watched = NULL;
  int32_t status = TILEWRIGHT_OK;
  while (!tw_wait(launch, tick)) {
    if (tick < TW_LONGEST_TICK_NS) tick += tick / 2;
    if (status) continue;
    if (!watched) watched = tw_watched(launch);
    int64_t more = watched ? launch->kernel->watch(launch->context, watched) : 0;
    bool stuck = more == TW_STUCK;
    if (__tw_is_stuck) stuck = __tw_is_stuck(launch, stuck);
    if (stuck) status = tw_deadlock(launch);
    for (; more > 0 && !status; more--) {
      free(watched);
      watched = NULL;
      tick = TW_SHORTEST_TICK_NS;
      if (!tw_start(launch))
        status = tw_fail(TILEWRIGHT_NO_MEMORY, TW_TOO_FEW_THREADS, launch->count);
    }
    if (status) __atomic_store_n(launch->context + TW_FIELD_CANCELLED, TW_CANCELLATION_REQUESTED, __ATOMIC_RELAXED);
  }
  free(watched);
  return status;
}

static int tw_thread_count(const tw_kernel *kernel, double blocks) {
  const char *wanted = getenv("TILEWRIGHT_NUM_THREADS");
  long count = wanted && *wanted ? atol(wanted) : tw_processors();
  if (count > TW_MAX_THREADS) count = TW_MAX_THREADS;
  if (count > blocks) count = (long)blocks;
  if (count < 1 || blocks <= kernel->alone) count = 1;
  return (int)count;
}

static int32_t tw_run(const tw_kernel *kernel, uint32_t x, uint32_t y, uint32_t z, const tw_word *arguments) {
  const uint32_t grid[3] = {x, y, z};
  for (int axis = 0; axis < 3; axis++)
    if (grid[axis] == 0 || grid[axis] > TW_MAX_GRID)
      return tw_fail(TILEWRIGHT_BAD_ARGUMENT, "grid_%c is %u; it must be from 1 to %u", "xyz"[axis], grid[axis], TW_MAX_GRID);
  if ((double)x * y * z > 9e18) return tw_fail(TILEWRIGHT_BAD_ARGUMENT, "the grid has more than 9e18 blocks");
  int64_t total = (int64_t)x * y * z;
  int count = tw_thread_count(kernel, (double)total), granted = 0;
  if (__tw_take_threads && count > 1) granted = __tw_take_threads(count - 1);
  if (__tw_take_threads && !kernel->watch) count = 1 + granted;
  int64_t chunk = kernel->watch ? 1 : total / ((int64_t)count * TW_CHUNKS_PER_THREAD);
  int64_t context[TW_FIELDS] = {
      [TW_FIELD_TOTAL] = total,
      [TW_FIELD_CHUNK] = chunk > 1 ? chunk : 1,
      [TW_FIELD_GRID_X] = x,
      [TW_FIELD_GRID_Y] = y,
      [TW_FIELD_GRID_Z] = z,
      [TW_FIELD_PRINT] = (int64_t)(intptr_t)kernel->print};
  tw_launch launch = {.kernel = kernel, .arguments = arguments, .context = context};
  pthread_mutex_init(&launch.lock, NULL);
  pthread_cond_init(&launch.ended, NULL);
  int32_t status = TILEWRIGHT_OK;
  void *records = NULL;
  bool ordered = kernel->watch || kernel->assertions[0]; /* blocks begin in the order of their numbers */
  if (!ordered && !posix_memalign(&records, TW_WORKER_BYTES, (size_t)count * TW_WORKER_BYTES)) {
    launch.records = memset(records, 0, (size_t)count * TW_WORKER_BYTES);
    launch.ranges = count;
  }
  tw_worker *own = kernel->watch ? NULL : tw_new_worker(&launch);
  if (kernel->watch) {
    status = tw_supervise(&launch, count);
  } else if (own) {
    while (launch.count < count - 1 && tw_start(&launch)) continue;
    tw_work(own);
    free(own);
  } else {
    status = tw_fail(TILEWRIGHT_NO_MEMORY, "no memory for a thread, which needs %zu bytes", kernel->scratch_bytes);
  }
  while (launch.workers) {
    tw_worker *worker = launch.workers;
    launch.workers = worker->next;
    pthread_join(worker->thread, NULL);
    free(worker);
  }
  free(records);
  if (granted) __tw_give_threads(granted);
  if (kernel->print) fflush(stdout);
  pthread_cond_destroy(&launch.ended);
  pthread_mutex_destroy(&launch.lock);
  if (status) return status;
  if (context[TW_FIELD_FAILED]) {
    int64_t block = context[TW_FIELD_FAILED_BLOCK];
    return tw_fail(TILEWRIGHT_ASSERTION_FAILED, "%s, in block (%lld, %lld, %lld)",
                   kernel->assertions[context[TW_FIELD_FAILED] - 1], (long long)(block % x), (long long)(block / x % y),
                   (long long)(block / x / y));
  }
  tw_message[0] = 0;
  return TILEWRIGHT_OK;
}
