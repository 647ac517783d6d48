// The processors of the machine, which launches of SIMT and of tile kernels share: how many threads work, those of the
// program that launched something included.
#include "runtime.h"
#include "../../system/processors.h"
#include <time.h>

namespace tilewright {

constexpr int patience = 1;  // seconds that a launch waits for a processor: what runs may wait for it, too

int worker_count() {
    char const* wanted = getenv("TILEWRIGHT_NUM_THREADS");
    if (wanted && atoi(wanted) > 0) return atoi(wanted);
    return tw_processors();
}

// A process that was forked has none of its parent's threads.
struct work_count {
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t freed = PTHREAD_COND_INITIALIZER;
    int working = 0, waiting = 0;
};
static work_count cores;

static void change(int by) {
    pthread_mutex_lock(&cores.mutex);
    cores.working += by;
    if (by < 0 && cores.waiting > 0) pthread_cond_broadcast(&cores.freed);
    pthread_mutex_unlock(&cores.mutex);
}
launching::launching() {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, [] { pthread_atfork(nullptr, nullptr, [] { cores = work_count{}; }); });
    int all = worker_count();
    timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += patience;
    pthread_mutex_lock(&cores.mutex);
    ++cores.waiting;
    while (cores.working >= all && pthread_cond_timedwait(&cores.freed, &cores.mutex, &until) == 0) {}
    --cores.waiting;
    ++cores.working;
    pthread_mutex_unlock(&cores.mutex);
}
launching::~launching() { change(-1); }
void keep_threads(int count) { change(count); }

}  // namespace tilewright

extern "C" {
// How many of `wanted` threads may help a launch, until `__tw_give_threads` gets them back: as many as there are
// processors without work, but for those that other launches wait for.
int __tw_take_threads(int wanted) {
    using namespace tilewright;
    int all = worker_count();
    pthread_mutex_lock(&cores.mutex);
    int free = all - cores.working - cores.waiting, granted = wanted < free ? wanted : free;
    if (granted < 0) granted = 0;
    cores.working += granted;
    pthread_mutex_unlock(&cores.mutex);
    return granted;
}
void __tw_give_threads(int count) {
    if (count > 0) tilewright::change(-count);
}
}
