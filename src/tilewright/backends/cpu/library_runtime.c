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

/* A kernel as the backend compiled it. */
typedef struct {
  tw_entry *entry;
  size_t scratch_bytes; /* for each thread */
  bool spins;           /* blocks may wait for each other */
  bool small;           /* a block does so little that threads are not worth waking for few of them */
  double block_work;
  const char *const *assertions;
  const char *const *places; /* where blocks wait, if they do */
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
  int64_t waited; /* iterations of the waiting loop that it is in, when memory changed last */
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

static void tw_work(tw_worker *worker) {
  const tw_launch *launch = worker->launch;
  launch->kernel->entry(launch->arguments, launch->context, worker->scratch, worker->record);
}

static void *tw_work_in_thread(void *data) {
  tw_launch *launch = ((tw_worker *)data)->launch;
  tw_work(data);
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

static int64_t tw_read(const int64_t *word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }

static void tw_cancel(tw_launch *launch) { __atomic_store_n(launch->context + TW_CANCELLED, TW_REQUESTED, __ATOMIC_RELAXED); }

/* What a look at blocks that wait for each other has found. */
typedef struct {
  int waiting;      /* threads whose block waits; 0 where another one does not */
  int64_t progress; /* what all have changed */
  int64_t fewest;   /* iterations of one of them since the last change */
} tw_look;

static tw_look tw_look_at(const tw_launch *launch) {
  tw_look found = {.fewest = INT64_MAX};
  for (const tw_worker *worker = launch->workers; worker; worker = worker->next) {
    int64_t waited = tw_read(worker->record + TW_WORKER_WAITED);
    if (waited != TW_ENDED && waited < TW_WAITS) return (tw_look){0};
    found.progress += tw_read(worker->record + TW_WORKER_PROGRESS);
    if (waited == TW_ENDED) continue;
    found.waiting++;
    if (waited - worker->waited < found.fewest) found.fewest = waited - worker->waited;
  }
  return found;
}

static int32_t tw_deadlock(const tw_launch *launch, const tw_look *found) {
  char places[768];
  size_t used = 0;
  int shown = 0;
  const int64_t *context = launch->context;
  for (const tw_worker *worker = launch->workers; worker && shown < TW_SHOWN && used < sizeof places; worker = worker->next) {
    const int64_t *record = worker->record;
    if (tw_read(record + TW_WORKER_WAITED) == TW_ENDED) continue;
    long long block = record[TW_WORKER_BLOCK], x = context[TW_GRID_X], y = context[TW_GRID_Y];
    used += (size_t)snprintf(places + used, sizeof places - used, "%sblock (%lld, %lld, %lld) at %s", shown++ ? "; " : "",
                             block % x, block / x % y, block / x / y,
                             launch->kernel->places[record[TW_WORKER_WAITS_AT] - 1]);
  }
  char more[32] = "";
  if (found->waiting > shown) snprintf(more, sizeof more, "; and %d more", found->waiting - shown);
  return tw_fail(TILEWRIGHT_DEADLOCK,
                 "deadlock: every block that is left waits for memory that none of them changes: %s%s", places, more);
}

/* Run the blocks, which may wait for each other, in ``count`` threads, and in more where all that have begun wait. As
   parallel.py and threads.py do it for Python. */
static int32_t tw_supervise(tw_launch *launch, int count) {
  while (launch->count < count && tw_start(launch)) continue;
  if (!launch->count) return tw_fail(TILEWRIGHT_NO_MEMORY, "the system gives no thread for the blocks of this kernel");
  int64_t *context = launch->context, tick = TW_SHORTEST_TICK_NS, since = 0; /* the time, counted in ticks */
  int32_t status = TILEWRIGHT_OK;
  tw_look first = {0}; /* without a change since then */
  while (!tw_wait(launch, tick)) {
    since += tick;
    if (tick < TW_LONGEST_TICK_NS) tick += tick / 2;
    tw_look now = status ? (tw_look){0} : tw_look_at(launch);
    if (!now.waiting || now.waiting != first.waiting || now.progress != first.progress) {
      first = now;
      since = 0;
      for (tw_worker *each = launch->workers; each; each = each->next) each->waited = tw_read(each->record + TW_WORKER_WAITED);
      continue;
    }
    int64_t left = context[TW_TOTAL] - tw_read(context + TW_NEXT);
    if (left > 0) {
      int more = left < launch->count ? (int)left : launch->count;
      for (first.waiting = 0, tick = TW_SHORTEST_TICK_NS; more && !status; more--)
        if (!tw_start(launch))
          status = tw_fail(TILEWRIGHT_NO_MEMORY,
                           "blocks of this kernel wait for each other and need more than %d threads, but the system "
                           "gives no more: raise its limit of threads (ulimit -u), or launch fewer blocks",
                           launch->count);
    } else if (tw_read(context + TW_FAILED)) { /* what failed does not do what the others wait for */
      tw_cancel(launch);
    } else if (since >= TW_PATIENCE_NS && now.fewest >= TW_STUCK_ITERATIONS) {
      status = tw_deadlock(launch, &now);
    }
    if (status) tw_cancel(launch);
  }
  return status;
}

static int tw_thread_count(const tw_kernel *kernel, double blocks) {
  const char *wanted = getenv("TILEWRIGHT_NUM_THREADS");
  long count = wanted && *wanted ? atol(wanted) : sysconf(_SC_NPROCESSORS_ONLN);
  if (count > TW_MAX_THREADS) count = TW_MAX_THREADS;
  if (count > blocks) count = (long)blocks;
  if (count < 1 || (kernel->small && blocks * kernel->block_work < TW_WORTH_A_THREAD)) count = 1;
  return (int)count;
}

/* Of the CUDA runtime, in programs of C++: how many of the wanted threads may help, as others use processors, too. */
__attribute__((weak)) int __tw_take_threads(int wanted);
__attribute__((weak)) void __tw_give_threads(int count);

static int32_t tw_run(const tw_kernel *kernel, uint32_t x, uint32_t y, uint32_t z, const tw_word *arguments) {
  const uint32_t grid[3] = {x, y, z};
  for (int axis = 0; axis < 3; axis++)
    if (grid[axis] == 0 || grid[axis] > TW_MAX_GRID)
      return tw_fail(TILEWRIGHT_BAD_ARGUMENT, "grid_%c is %u; it must be from 1 to %u", "xyz"[axis], grid[axis], TW_MAX_GRID);
  if ((double)x * y * z > 9e18) return tw_fail(TILEWRIGHT_BAD_ARGUMENT, "the grid has more than 9e18 blocks");
  int64_t total = (int64_t)x * y * z;
  int count = tw_thread_count(kernel, (double)total), granted = 0;
  if (__tw_take_threads && count > 1) granted = __tw_take_threads(count - 1);
  if (__tw_take_threads && !kernel->spins) count = 1 + granted;
  int64_t chunk = kernel->spins ? 1 : total / ((int64_t)count * TW_CHUNKS_PER_THREAD);
  int64_t context[TW_FIELDS] = {
      [TW_TOTAL] = total,
      [TW_CHUNK] = chunk > 1 ? chunk : 1,
      [TW_GRID_X] = x,
      [TW_GRID_Y] = y,
      [TW_GRID_Z] = z,
      [TW_PRINT] = (int64_t)(intptr_t)kernel->print};
  tw_launch launch = {.kernel = kernel, .arguments = arguments, .context = context};
  pthread_mutex_init(&launch.lock, NULL);
  pthread_cond_init(&launch.ended, NULL);
  int32_t status = TILEWRIGHT_OK;
  void *records = NULL;
  bool ordered = kernel->spins || kernel->assertions[0]; /* blocks begin in the order of their numbers */
  if (!ordered && !posix_memalign(&records, TW_WORKER_BYTES, (size_t)count * TW_WORKER_BYTES)) {
    launch.records = memset(records, 0, (size_t)count * TW_WORKER_BYTES);
    launch.ranges = count;
  }
  tw_worker *own = kernel->spins ? NULL : tw_new_worker(&launch);
  if (kernel->spins) {
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
  if (context[TW_FAILED]) {
    int64_t block = context[TW_FAILED_BLOCK];
    return tw_fail(TILEWRIGHT_ASSERTION_FAILED, "%s, in block (%lld, %lld, %lld)",
                   kernel->assertions[context[TW_FAILED] - 1], (long long)(block % x), (long long)(block / x % y),
                   (long long)(block / x / y));
  }
  tw_message[0] = 0;
  return TILEWRIGHT_OK;
}
