// Signals that end a program. In a SIMT kernel they make the launch fail; elsewhere the program ends as it would have, and
// says before where it was, by a command that reads its debug information: `cpp/host/crashes.py`.
#include "simt.h"
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

extern "C" int backtrace(void** found, int room) __attribute__((weak));  // of glibc
extern "C" __attribute__((weak)) char const* const __tw_compiler_command[];

namespace tilewright {
constexpr int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT};
constexpr int words = 8, digits = 24;
constexpr unsigned seconds_to_tell = 20;
static struct sigaction before[NSIG];
static char const* command[words + frames + 4];  // and room for what is known once the program crashes
static int given = 0;
static int (*locate)(char const* image, size_t offset, char* text, int room) = nullptr;  // null: that of the program
char const* running_tile = nullptr;
static int (*tell_tile)(int number, size_t address, size_t counter) = nullptr;

// What was added to the addresses of the file when it was loaded.
static size_t base() {
    Dl_info about{};
    struct link_map* found = nullptr;
    dladdr1((void*)&run_simt, &about, (void**)&found, RTLD_DL_LINKMAP);
    return found ? size_t(found->l_addr) : size_t(about.dli_fbase);
}
// Writes the line of an address of the program's code, or of a module's: whether it is known.
static bool locate_at(size_t address, char* text, int room) {
    Dl_info about{};
    struct link_map* found = nullptr;
    if (!locate || !dladdr1((void*)address, &about, (void**)&found, RTLD_DL_LINKMAP) || !found) return false;
    size_t const start = size_t(found->l_addr);
    return locate(start == base() ? nullptr : found->l_name, address - start, text, room) != 0;
}
static size_t counter(void* context) {
    auto const& machine = ((ucontext_t*)context)->uc_mcontext;
#if defined(__x86_64__)
    return size_t(machine.gregs[REG_RIP]);
#else
    return size_t(machine.pc);
#endif
}
// What signal handlers may call does not include snprintf.
static char const* decimal(char* room, size_t value) {
    char* at = room + digits;
    *--at = 0;
    do *--at = char('0' + value % 10);
    while (value /= 10);
    return at;
}
// Whether a fault comes from a write; where the system does not say, it counts as a read.
static bool writes(void* context) {
#if defined(__x86_64__)
    return ((ucontext_t*)context)->uc_mcontext.gregs[REG_ERR] & 2;
#else
    return (void)context, false;
#endif
}
static void tell(int number, void* address, void* context) {
    static char texts[frames + 2][digits];
    void* found[frames];
    int count = 0, next = given;
    if (backtrace) count = backtrace(found, frames);
    else found[count++] = (void*)counter(context);
    command[next++] = decimal(texts[0], size_t(number));
    command[next++] = decimal(texts[1], size_t(address));
    for (int i = 0, begun = backtrace == nullptr; i < count; ++i) {
        begun |= size_t(found[i]) == counter(context);  // the first ones are of this handler
        if (begun) command[next++] = decimal(texts[i + 2], size_t(found[i]) - base() - (size_t(found[i]) != counter(context)));
    }
    command[next] = nullptr;
    pid_t child = fork();
    if (child == 0) {
        for (int each : signals) signal(each, SIG_DFL);
        execv(command[0], (char**)command);
        _exit(127);
    }
    while (child > 0 && waitpid(child, nullptr, 0) < 0 && errno == EINTR) {}
}
// Has a copy of this process say where code of a tile kernel is, which Python has loaded: whether it could.
static bool tile_is_told(int number, void* address, void* context) {
    if (!tell_tile) return false;
    pid_t child = fork();
    if (child == 0) {
        for (int each : signals) signal(each, SIG_DFL);
        alarm(seconds_to_tell);  // threads that hold what Python waits for are not in the copy
        _exit(tell_tile(number, size_t(address), counter(context)) ? 0 : 1);
    }
    int status = 1;
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {}
    return child > 0 && status == 0;
}
// Has a copy of this process say what it would say at its end.
static void say_at_exit(int number) {
    pid_t child = at_exit ? fork() : -1;
    if (child == 0) {
        for (int each : signals) signal(each, SIG_DFL);
        alarm(seconds_to_tell);
        report_refusals();
        _exit(at_exit(128 + number));
    }
    while (child > 0 && waitpid(child, nullptr, 0) < 0 && errno == EINTR) {}
}
// What the address of a fault is just outside of.
static char const* outside(worker const* mine, size_t address) {
    for (span const& each : mine->shared_guards)
        if (each.has(address)) return "the variables of a block in shared memory";
    for (span const& each : mine->stack_guards)
        if (each.has(address)) return "the stack of a thread: an index outside of its arrays, or calls too deep";
    return nullptr;
}
static void handle(int number, siginfo_t* info, void* context) {
    int const error = errno;
    bool const faulted = info->si_code > 0 && number != SIGABRT;  // not sent by another process
    if (faulted && number == SIGSEGV && is_watched_use(info->si_addr, (void const*)counter(context), writes(context))) {
        errno = error;
        return;
    }
    if (faulted && here && here->current) {
        launch* run = here->run;
        if (__atomic_exchange_n(&run->failed, 1, __ATOMIC_ACQ_REL) == 0) {
            bool const odd = info->si_code == SI_KERNEL || (number == SIGBUS && info->si_code == BUS_ADRALN);
            run->fault = {odd, number, counter(context), size_t(info->si_addr), {}, outside(here, size_t(info->si_addr))};
            memcpy(run->fault.block, here->current->coordinates + 3, sizeof run->fault.block);
        }
        leave(here->current, state::done);  // never to come back
    }
    static pthread_t teller{};
    pthread_t none{}, own = pthread_self();
    if (__atomic_compare_exchange_n(&teller, &none, own, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
        bool const in_tile = faulted && running_tile;
        bool const told = in_tile && tile_is_told(number, info->si_addr, context);
        if (in_tile && !told) {
            char const* const texts[] = {"tilewright: the tile kernel ", running_tile, "() was running\n"};
            for (char const* text : texts) (void)!write(STDERR_FILENO, text, strlen(text));
        }
        if (given && !told) tell(number, info->si_addr, context);
        say_at_exit(number);
    } else if (faulted && none != own) {
        for (;;) pause();  // the other thread ends the process
    }
    sigaction(number, before + number, nullptr);
    errno = error;
    if (!faulted) raise(number);
}
// Where nobody has asked for these signals, they come here from now on.
static void catch_signals() {
    constexpr size_t stack_size = 8 << 20;  // Python runs there
    void* memory = mmap(nullptr, stack_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    stack_t own{}, old{};
    own.ss_sp = memory;
    own.ss_size = stack_size;
    if (memory != MAP_FAILED && sigaltstack(nullptr, &old) == 0 && (old.ss_flags & SS_DISABLE)) sigaltstack(&own, nullptr);
    for (int number : signals) {
        if (sigaction(number, nullptr, before + number) != 0 || before[number].sa_handler != SIG_DFL) continue;
        struct sigaction mine{};
        mine.sa_sigaction = handle;
        mine.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
        sigemptyset(&mine.sa_mask);
        sigaction(number, &mine, nullptr);
    }
    void* first;
    if (backtrace) backtrace(&first, 1);  // it loads a library, which a handler must not
}
void expect_faults() {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, catch_signals);
}
// Where a SIMT kernel begins.
static bool locate_kernel(simt_code const* code, char* where, int room) {
    return code && locate_at(code->how == way::warps ? size_t(code->regions[0]) : size_t(code->thread), where, room);
}
void say_of(kernel const& what, char const* told) {
    char where[512];
    if (locate_kernel((simt_code const*)what.code, where, int(sizeof where))) say("%s: %s() %s", where, what.name, told);
    else say("%s() %s", what.name, told);
}
// Whether the place `where` is among `places`, of which there are some.
static bool has(char const* places, char const* where) {
    size_t length = strlen(where);
    for (char const* at = strstr(places, where); at; at = strstr(at + 1, where))
        if (at[length] == 0 || at[length] == ' ') return true;
    return !*places;
}
// A kernel that ends itself, for the sanitizer.
static void note_trap(launch const& run, char* where, char const* what) {
    char* const colon = strrchr(where, ':');
    int const line = colon ? atoi(colon + 1) : 0;
    if (colon) *colon = 0;
    unsigned const at[6] = {0, 0, 0, run.fault.block[0], run.fault.block[1], run.fault.block[2]};
    note(&run, "failed-assertion", strdup(where), line, 0, at, what, true);
}
// Says what a fault was that ended a launch; the error that the program gets.
cudaError_t report_fault(launch& run) {
    char where[512], what[160];
    size_t offset = run.fault.counter - base();
    Dl_info code;
    bool const astray = dladdr((void*)run.fault.counter, &code) == 0;  // no code is there
    bool const known = !astray && locate_at(run.fault.counter, where, int(sizeof where));
    if (!known && !locate_kernel(&run.what, where, int(sizeof where)))
        snprintf(where, sizeof where, "address 0x%zx of the program's code", offset);
    if (run.fault.signal == SIGFPE && !has(run.what.divisions, where)) snprintf(where, sizeof where, "%s", run.what.divisions);
    bool const memory = run.fault.signal == SIGSEGV || run.fault.signal == SIGBUS;
    if (astray) snprintf(what, sizeof what, "the stack of a thread is overwritten, as by an index outside of its arrays");
    else if (memory && run.fault.misaligned) snprintf(what, sizeof what, "an access to an address that is misaligned, or none");
    else if (memory && run.fault.outside) snprintf(what, sizeof what, "an access outside of %s", run.fault.outside);
    else if (memory) snprintf(what, sizeof what, "an access to address 0x%zx, which is no memory", run.fault.address);
    else snprintf(what, sizeof what, "%s", run.fault.signal == SIGFPE ? "a division of an integer by zero" : "a trap");
    unsigned* block = run.fault.block;
    unsigned last = block[0];
    if (run.what.how == way::ranges) {  // of which it is not known which thread it was
        unsigned long long first = block[0] | (unsigned long long)block[1] << 32, end = first + run.width - 1;
        last = unsigned((end < run.all ? end : run.all - 1) / run.block[0]);
        block[0] = unsigned(first / run.block[0]);
        block[1] = block[2] = 0;
    }
    char until[24] = "";
    if (last != block[0]) snprintf(until, sizeof until, " to (%u, 0, 0)", last);
    if (checking() && run.fault.signal != SIGFPE && !memory) return note_trap(run, where, what), cudaErrorLaunchFailure;
    say("%s: %s, in block (%u, %u, %u)%s of %s", where, what, block[0], block[1], block[2], until, run.kernel);
    if (memory && run.fault.misaligned && !astray) return cudaErrorMisalignedAddress;
    return memory ? cudaErrorIllegalAddress : cudaErrorLaunchFailure;
}

int place_in_host_code(char* file, int room) {
    void* found[frames];
    int const line = place_of(found, backtrace ? backtrace(found, frames) : 0, file, room);
    return line ? line : place_of_task(file, room);
}
int place_of(void* const* found, int count, char* file, int room) {
    for (int i = 0; i < count; ++i) {
        if (!locate_at(size_t(found[i]) - 1, file, room)) continue;
        char* const colon = strrchr(file, ':');
        *colon = 0;
        return atoi(colon + 1);
    }
    snprintf(file, size_t(room), "the program");
    return 0;
}

// A program of its own asks the compiler that made it, where that is still there.
static char program[PATH_MAX];
static int locate_outside(char const* image, size_t offset, char* text, int room) {
    char digits_of[digits];
    char const* words_of[words + 4];
    int count = 0, ends[2];
    for (char const* const* word = __tw_compiler_command; *word && count < words; ++word) words_of[count++] = *word;
    char const* const asked[] = {"-place", image ? image : program, decimal(digits_of, offset), nullptr};
    for (char const* word : asked) words_of[count++] = word;
    if (pipe(ends) != 0) return 0;
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        execv(words_of[0], (char**)words_of);
        _exit(127);
    }
    close(ends[1]);
    ssize_t length = 0, got;
    while (length < room - 1 && (got = read(ends[0], text + length, size_t(room - 1 - length))) > 0) length += got;
    close(ends[0]);
    text[length] = 0;
    int status = 1;
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {}
    return status == 0 && length > 0;
}
__attribute__((constructor)) static void find_compiler() {
    if (!__tw_compiler_command) return;
    Dl_info about{};
    struct link_map* found = nullptr;
    dladdr1((void*)&run_simt, &about, (void**)&found, RTLD_DL_LINKMAP);
    if (!found || found->l_name[0]) return;  // a library leaves the signals of the program that loads it alone
    if (readlink("/proc/self/exe", program, sizeof program - 1) < 0) return;
    for (; __tw_compiler_command[given] && given < words - 2; ++given) command[given] = __tw_compiler_command[given];
    command[given++] = "-crash";
    command[given++] = program;
    locate = locate_outside;
    expect_faults();
}

}  // namespace tilewright

extern "C" void __tw_set_tile_teller(int (*teller)(int, size_t, size_t)) { tilewright::tell_tile = teller; }
extern "C" void __tw_set_crash_command(char const* const* words_of, int count, decltype(tilewright::locate) locator) {
    using namespace tilewright;
    locate = locator;
    for (given = 0; given < count && given < words; ++given) command[given] = strdup(words_of[given]);
    expect_faults();
}
