// Blocks that wait in loops for what others write. Where all that have begun wait, others are begun by more threads; and
// where nothing can happen any more, the launch fails.
#include "simt.h"
#include <sched.h>
#include <unistd.h>

namespace tilewright {
constexpr unsigned most_threads = 1024;
constexpr double seconds_of_waiting = 5;  // other threads of the program may write as well

// What blocks wait for may have changed.
static void changed(waiting& all) {
    ++all.epoch;
    all.confirmed = 0;
    all.since = now();
}
static void count_worker(launch* run, int change) {
    locked here;
    run->waits.workers += unsigned(change);
    changed(run->waits);
}
void work_counted(launch* run) {
    count_worker(run, 1);
    work(run);
    count_worker(run, -1);
}
static void* work_more(void* given) {
    auto* run = (launch*)given;
    work(run);
    locked here;
    count_worker(run, -1);
    --run->waits.more;
    return nullptr;
}
// Has one more thread take blocks: whether it could, and there are some.
static bool add_thread(launch* run) {
    bool const left = __atomic_load_n(&run->next, __ATOMIC_RELAXED) < run->count;
    pthread_t made;
    if (!left || run->waits.more == most_threads || pthread_create(&made, nullptr, work_more, run) != 0) return false;
    pthread_detach(made);
    ++run->waits.more;
    count_worker(run, 1);
    return true;
}
void wait_for_more(launch* run) {
    for (;; usleep(50)) {
        locked here;
        if (run->waits.more == 0) return;
    }
}

void begin_round(worker* mine) {
    mine->spin.epoch = __atomic_load_n(&mine->run->waits.epoch, __ATOMIC_ACQUIRE);
    mine->spin.before = mine->spin.lanes;
    mine->spin.lanes = mine->spin.moves = 0;
    mine->spin.only = true;
}
void spin(worker* mine, char const* file, int line) {
    ++mine->spin.lanes;
    mine->spin.only &= line != 0;
    mine->spin.file = file;
    mine->spin.line = line;
}
bool end_round(worker* mine, unsigned round) {
    if (round % 64 == 63) sched_yield();
    launch* run = mine->run;
    waiting& all = run->waits;
    locked here;
    if (mine->spin.moves || mine->spin.lanes != mine->spin.before || !mine->spin.only) changed(all);
    if (all.epoch != mine->spin.epoch) return true;
    all.confirmed += mine->spin.confirmed != all.epoch;
    mine->spin.confirmed = all.epoch;
    if (all.confirmed < all.workers || add_thread(run) || now() - all.since < seconds_of_waiting) return true;
    fail(run, mine->spin.file, mine->spin.line, "every block that is left waits for memory that none of them changes");
    return false;
}

}  // namespace tilewright

// A thread has come to a loop that waits.
extern "C" void __tw_simt_enters() { ++tilewright::here->spin.moves; }
