// The order of work. What a stream is asked to do runs at once, in the thread that asks for it, if what has to be before it
// has ended; else in a thread of the runtime, as do kernels that wait in loops for what others write, and host functions:
// the program may have to do something before they end.
#include "runtime.h"
#include <time.h>
#include <unistd.h>

extern "C" int backtrace(void** found, int room) __attribute__((weak));  // of glibc

namespace tilewright {

constexpr double seconds_until_return = 0.25;  // seconds that a launch waits for the end of such work, while something goes on in it

// Pieces of work by the number of their lane: so many of each.
using counts = list<unsigned long long>;
static void raise(counts& all, unsigned lane, unsigned long long count) {
    while (all.count <= lane) all.add(0);
    if (all[lane] < count) all[lane] = count;
}
static void raise(counts& all, counts const& others) {
    for (unsigned i = 0; i < others.count; ++i) raise(all, i, others[i]);
}
// What runs one after the other: the work of a stream. The first lane is the legacy default stream's.
struct lane {
    unsigned long long asked, ended;
    counts after;  // what the next piece of work runs after, of other lanes
    bool blocking, used;
};
static list<lane> lanes;
static counts joined;  // what the program has waited for
struct task {
    turn number;
    counts after;
    node what;
    bool begun, idle;  // nothing goes on in it, as it waits for others
    void* asked_at[frames];  // addresses of code, under the sanitizer
    int depth;
};
static list<task*> pending;
static pthread_mutex_t order_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed_order = PTHREAD_COND_INITIALIZER;
static thread_local task* current = nullptr;
static cudaError_t late = cudaSuccess;  // an error of work that ended after its launch had returned
struct ordering {
    ordering() { pthread_mutex_lock(&order_mutex); }
    ~ordering() { pthread_mutex_unlock(&order_mutex); }
};

// A process that was forked has no threads of the runtime: what they had to do is none of its work.
static void begin_anew() {
    order_mutex = PTHREAD_MUTEX_INITIALIZER;
    changed_order = PTHREAD_COND_INITIALIZER;
    pending = {};
    for (lane& each : lanes) each.ended = each.asked;
}
static void keep_through_forks() {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, [] {
        pthread_atfork([] { pthread_mutex_lock(&order_mutex); }, [] { pthread_mutex_unlock(&order_mutex); }, begin_anew);
        keep_lock_through_forks();  // which is had first
    });
}

static unsigned free_lane(bool blocking) {
    unsigned at = 0;
    if (!lanes.count) lanes.add({0, 0, {}, true, true});
    while (at < lanes.count && (lanes[at].used || lanes[at].ended < lanes[at].asked)) ++at;
    if (at == lanes.count) lanes.add({});
    lanes[at].blocking = blocking;
    lanes[at].used = true;
    return at;
}
unsigned new_lane(bool blocking) {
    ordering here;
    return free_lane(blocking);
}
void leave_lane(unsigned number) {
    ordering here;
    lanes[number].used = false;  // numbers of its work go on
}
static unsigned own_lane() {
    static pthread_key_t key;
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    static thread_local unsigned own = 0;
    pthread_once(&once, [] { pthread_key_create(&key, [](void* lane) { leave_lane(unsigned(size_t(lane))); }); });
    if (!own) pthread_setspecific(key, (void*)size_t(own = free_lane(true)));
    return own;
}
static bool threads_have_streams = false;
// Keeps the order as it is; `lane` is that of a stream. A thread's own default stream gets one when it is first used.
struct ordering_of : ordering {
    unsigned lane;
    explicit ordering_of(cudaStream_t stream, unsigned known) : lane(known) {
        if (!lanes.count) lanes.add({0, 0, {}, true, true});
        if (stream == cudaStreamPerThread || (!stream && threads_have_streams)) lane = own_lane();
    }
    explicit ordering_of(cudaStream_t stream) : ordering_of(stream, lane_of(stream)) {}
};
// What the next piece of work of a lane runs after, that of its own included.
static counts runs_after(unsigned number) {
    counts all{};
    raise(all, lanes[number].after);
    raise(all, number, lanes[number].asked);
    for (unsigned i = 1; number == 0 && i < lanes.count; ++i)
        if (lanes[i].blocking) raise(all, i, lanes[i].asked);
    if (lanes[number].blocking) raise(all, 0, lanes[0].asked);
    return all;
}
static bool has_ended(counts const& all) {
    for (unsigned i = 0; i < all.count; ++i)
        if (lanes[i].ended < all[i]) return false;
    return true;
}
static void start_threads(unsigned spare);
// Work of `turn` has ended.
static void end(turn number) {
    lanes[number.lane].ended = number.count;
    pthread_cond_broadcast(&changed_order);
}
static void* do_work(void*) {
    pthread_mutex_lock(&order_mutex);
    for (;;) {
        task* next = nullptr;
        for (task* each : pending)
            if (!next && !each->begun && has_ended(each->after)) next = each;
        if (!next) break;
        next->begun = true;
        start_threads(0);
        pthread_mutex_unlock(&order_mutex);
        current = next;
        bool const by_host = next->what.type == cudaGraphNodeTypeHost;
        cudaError_t const error = report(done_in_turn(next->number, by_host, [&] { return run(next->what, next->what.again); }));
        pthread_mutex_lock(&order_mutex);
        if (error != cudaSuccess) late = error;
        pending.discard(next);
        end(next->number);
        next->after.clear();
        pthread_mutex_unlock(&order_mutex);
        forget(next->what);
        free(next);
        pthread_mutex_lock(&order_mutex);
    }
    pthread_mutex_unlock(&order_mutex);
    return nullptr;
}
// Has threads begin what may begin, but for `spare` pieces of work.
static void start_threads(unsigned spare) {
    unsigned ready = 0;
    for (task* each : pending) ready += !each->begun && has_ended(each->after);
    for (pthread_t made; ready > spare && pthread_create(&made, nullptr, do_work, nullptr) == 0; --ready) pthread_detach(made);
}

bool begin_turn(cudaStream_t stream, turn* number, bool waits, counts* before) {
    keep_through_forks();
    ordering_of here(stream);
    counts const after = runs_after(here.lane);
    lane& own = lanes[here.lane];
    own.after.clear();
    own.after = after;
    *number = {here.lane, ++own.asked};
    bool const ready = has_ended(after);
    if (!ready || waits) raise(*before, after);
    return ready;
}
void end_turn(turn number) {
    ordering here;
    end(number);
    if (pending.count) start_threads(0);
}
cudaError_t do_later(turn number, counts const& after, node const& what, bool ready) {
    auto* made = (task*)calloc(1, sizeof(task));
    made->number = number;
    made->after = after;
    made->what = what;
    if (checking() && backtrace) made->depth = backtrace(made->asked_at, frames);
    timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += long(seconds_until_return * 1e9);
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    ordering here;
    pending.add(made);
    start_threads(0);
    while (ready && pending.holds(made) && !made->idle && pthread_cond_timedwait(&changed_order, &order_mutex, &until) == 0) {}
    cudaError_t const error = late;
    late = cudaSuccess;
    return error;
}
task* task_here() { return current; }
int place_of_task(char* file, int room) { return current ? place_of(current->asked_at, current->depth, file, room) : 0; }
void is_idle(task* what) {
    ordering here;
    what->idle = true;
    pthread_cond_broadcast(&changed_order);
}

// Waits, or with `ask` says whether that would take time.
static cudaError_t wait_until(counts& all, bool ask) {
    bool ended = has_ended(all);
    for (; !ended && !ask; ended = has_ended(all)) pthread_cond_wait(&changed_order, &order_mutex);
    if (ended) raise(joined, all);
    all.clear();
    cudaError_t const error = ended ? late : cudaErrorNotReady;
    if (ended) late = cudaSuccess;
    return error;
}
cudaError_t join(cudaStream_t stream, bool ask) {
    cudaError_t error;
    {
        ordering_of here(stream);
        counts all = runs_after(here.lane);
        error = wait_until(all, ask);
    }
    results_are_joined();
    return error;
}
cudaError_t join_all() {
    cudaError_t error;
    {
        ordering here;
        counts all{};
        for (unsigned i = 0; i < lanes.count; ++i) raise(all, i, lanes[i].asked);
        error = wait_until(all, false);
    }
    results_are_joined();
    return error;
}
bool is_joined(turn number) {
    ordering here;
    return joined.count > number.lane && joined[number.lane] >= number.count;
}
// Marks: what has been asked of a stream when one is made.
bool mark(cudaStream_t stream, list<unsigned long long>* made) {
    ordering_of here(stream);
    made->clear();
    *made = runs_after(here.lane);
    return has_ended(*made);
}
cudaError_t join(list<unsigned long long> const& marked, bool ask) {
    cudaError_t error;
    {
        ordering here;
        counts all{};
        raise(all, marked);
        error = wait_until(all, ask);
    }
    results_are_joined();
    return error;
}
void wait_for(cudaStream_t stream, list<unsigned long long> const& marked) {
    ordering_of here(stream);
    raise(lanes[here.lane].after, marked);
}

}  // namespace tilewright

// For files with CUDA_API_PER_THREAD_DEFAULT_STREAM.
extern "C" {
void __tw_threads_have_streams() { tilewright::threads_have_streams = true; }
}
