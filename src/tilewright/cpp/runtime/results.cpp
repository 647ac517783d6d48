// Under the sanitizer: memory that the program reads before it has waited for the work that writes it. Until it has, nobody
// may touch the pages, so that the first access is a fault, which says where it is.
#include "runtime.h"
#include <sys/mman.h>

extern "C" int backtrace(void** found, int room) __attribute__((weak));  // of glibc

namespace tilewright {

constexpr size_t widest = 16;  // bytes of an element, of which some may be as before
constexpr size_t most_compared = size_t(32) << 20;  // bytes of memory of which it is kept what a kernel changes

struct result {
    size_t start, end;
    turn number;
    char const* by;
};
struct early_use {
    void* found[frames];  // addresses of code
    int count;
    char text[192];
};
static list<result> results;
static list<pages> closed;
static list<early_use> early_uses;
static unsigned in_work = 0;  // threads that may access all memory
static thread_local list<result> own_results;
static thread_local bool are_public = false;

static void allow(pages const& what, int how) { mprotect((void*)what.start, what.end - what.start, how); }
static void open_all() {
    for (pages const& each : closed) allow(each, PROT_READ | PROT_WRITE);
    closed.clear();
}
static void close_all() {
    list<pages> all = pages_of_host();
    for (pages const& each : all) {
        bool used = false;
        for (result const& one : results) used |= one.start < each.end && one.end > each.start;
        if (!used || closed.holds(each)) continue;
        allow(each, PROT_NONE);
        closed.add(each);
    }
    all.clear();
}
void begin_results() {
    locked here;
    if (in_work++ == 0) open_all();
}
void end_results(turn number) {
    locked here;
    for (result const& each : own_results) results.add({each.start, each.end, number, each.by});
    own_results.clear();
    if (--in_work == 0) close_all();
}
void note_result(void const* start, size_t size, char const* by) {
    if (checking()) own_results.add({size_t(start), size_t(start) + size, {}, by});
}
void forget_results(size_t start, size_t end) {
    locked here;
    for (size_t i = results.count; i-- > 0;)
        if (results[i].start < end && results[i].end > start) results.remove(i);
    for (size_t i = closed.count; i-- > 0;)
        if (closed[i].start < end && closed[i].end > start) closed.remove(i);
}
void results_are_public() { are_public = true; }

kernel_results::kernel_results(char const* name, bool wanted) : name(name) {
    are_public = false;
    size_t bytes = 0;
    if (wanted) all = pages_of_host();
    for (pages const& each : all) bytes += each.end - each.start;
    if (bytes > most_compared) all.clear();
    for (pages const& each : all)
        before.add((unsigned char*)memcpy(malloc(each.end - each.start), (void*)each.start, each.end - each.start));
}
kernel_results::~kernel_results() {
    for (size_t i = 0; i < all.count; ++i) {
        size_t first = 0, last = all[i].end - all[i].start;
        auto* now = (unsigned char*)all[i].start;
        bool const same = are_public || memcmp(now, before[i], last) == 0;
        while (!same && now[first] == before[i][first]) ++first;
        while (!same && now[last - 1] == before[i][last - 1]) --last;
        if (!same) note_result(now + first / widest * widest, last - first / widest * widest, name);
        free(before[i]);
    }
    all.clear();
    before.clear();
}

void report_early_uses() {
    for (early_use const& each : early_uses) note_at_frames("unfinished-work", each.text, each.found, each.count);
    locked here;
    early_uses.clear();
}
void results_are_joined() {
    if (!checking()) return;
    report_early_uses();
    locked here;
    for (size_t i = results.count; i-- > 0;)
        if (is_joined(results[i].number) || !holds((void*)results[i].start, 1)) results.remove(i);
    if (in_work) return;
    open_all();
    close_all();
}
bool used_too_early(void const* address, void const* counter, bool writes) {
    if (!checking()) return false;
    locked here;
    size_t const at = size_t(address);
    for (size_t i = 0; i < closed.count; ++i) {
        pages const found = closed[i];
        if (at < found.start || at >= found.end) continue;
        allow(found, PROT_READ | PROT_WRITE);
        closed.remove(i);
        for (result const& each : results) {
            if (at < each.start || at >= (each.end + widest - 1) / widest * widest) continue;
            early_use& made = early_uses.add({});
            made.count = backtrace ? backtrace(made.found, frames) : 0;
            for (void*& each : made.found) each = (char*)each + (each == counter);  // others are behind calls
            snprintf(made.text, sizeof made.text, "host code %s memory that %s writes, and has not waited for its end", writes ? "writes" : "reads", each.by);
            break;
        }
        return true;
    }
    bool opened = false;  // by another thread, since
    list<pages> all = pages_of_host();
    for (pages const& each : all) opened |= at >= each.start && at < each.end;
    all.clear();
    return opened;
}

}  // namespace tilewright
