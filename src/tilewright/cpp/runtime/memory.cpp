// Memory: allocations, copies in one to three dimensions, pools.
#include "runtime.h"
#include <sys/mman.h>
#include <unistd.h>

namespace tilewright {

constexpr size_t alignment = 256;
// An allocation, sorted by its start. `owner` is what to free; memory that the program registered has none. Of memory of
// this machine that is `mapped`, so many bytes were.
struct block {
    size_t start, end;
    void* owner;
    size_t mapped;
    cudaMemoryType kind;
    unsigned flags;  // with which the program asked for memory of the host
    bool reserved;   // a graph owns it
    // What the program said of where it is used. Nothing follows from it here.
    bool read_mostly, used_by_device;
    cudaMemLocation preferred, prefetched;
    bool on_gpu = false;  // where this machine cannot read it
    unsigned char* written = nullptr;  // for `written_bytes`
    bool trusted = false, closed = false;
    byte_users* users = nullptr;  // for `users_of`
};
static list<block> blocks;
static size_t watched = 0;  // bytes of which the users are known
// On a GPU: allocations that both sides see at the same addresses, where it has a variable of the device, copies of what
// this machine cannot read, and memory of this machine that it is to see from now on, or no longer. Null without one.
static struct {
    void* (*allocate)(size_t);
    void (*release)(void*);
    void* (*variable)(void const*);
    void (*move)(void*, void const*, size_t);
    void (*show)(void*, size_t);
} gpu{};
// On both sides of memory of this machine lie addresses that nobody may use: a kernel that leaves it faults there before
// it harms others.
constexpr size_t guard = size_t(2) << 30, most_mapped = 8192;  // the system allows 65530 areas for a process

static block memory(size_t size, cudaMemoryType kind) {
    size_t page = size_t(sysconf(_SC_PAGESIZE)), pages = (size + page - 1) / page * page, mapped = pages + 2 * guard;
    int const how = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void* found = gpu.allocate || blocks.count >= most_mapped ? MAP_FAILED : mmap(nullptr, mapped, PROT_NONE, how, -1, 0);
    char* owner = (char*)found + guard;
    if (found != MAP_FAILED && mprotect(owner, pages, PROT_READ | PROT_WRITE) == 0)
        return {size_t(owner), size_t(owner) + size, owner, mapped, kind};
    if (found != MAP_FAILED) munmap(found, mapped);
    owner = (char*)(gpu.allocate ? gpu.allocate : malloc)(size + alignment);
    size_t start = (size_t(owner) + alignment - 1) / alignment * alignment;
    return {start, start + size, owner, 0, kind};
}
static void give_back(block const& what) {
    forget_results(what.start, what.end);
    free(what.written);
    if (what.users) {
        munmap(what.users, (what.end - what.start) * sizeof(byte_users));
        watched -= what.end - what.start;
    }
    if (what.mapped) munmap((char*)what.owner - guard, what.mapped);
    else if (what.owner) (gpu.release ? gpu.release : free)(what.owner);
}
static size_t used = 0, most_used = 0;

static size_t total_memory() { return size_t(sysconf(_SC_PAGESIZE)) * size_t(sysconf(_SC_PHYS_PAGES)); }

// The allocation that `address` is in, or at the end of.
static block* find(void const* address) {
    size_t low = 0, high = blocks.count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (blocks[middle].start <= size_t(address)) low = middle + 1;
        else high = middle;
    }
    return low > 0 && size_t(address) <= blocks[low - 1].end ? &blocks[low - 1] : nullptr;
}
struct home {
    void const* variable;
    char* memory;
};
static list<home> homes;

static void add(block const& what) {
    size_t at = 0;
    while (at < blocks.count && blocks[at].start < what.start) ++at;
    blocks.insert(at, what);
}

bool holds(void const* address, size_t size) {
    locked here;
    block* found = find(address);
    return found && size_t(address) + size >= size && size_t(address) + size <= found->end;
}

bool bounds_of(void const* address, size_t* start, size_t* end) {
    locked here;
    block* found = find(address);
    if (!found) return false;
    *start = found->start;
    *end = found->end;
    return true;
}

unsigned char* written_bytes(void const* address) {
    locked here;
    block* found = find(address);
    return found && !found->trusted ? found->written : nullptr;
}
byte_users* users_of(void const* address) {
    constexpr size_t most = size_t(32) << 20;
    locked here;
    block* found = find(address);
    size_t const size = found ? found->end - found->start : 0;
    if (!found || found->users || watched + size > most) return found ? found->users : nullptr;
    int const how = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void* made = mmap(nullptr, size * sizeof(byte_users), PROT_READ | PROT_WRITE, how, -1, 0);
    if (made == MAP_FAILED) return nullptr;
    watched += size;
    return found->users = (byte_users*)made;
}
list<pages> watched_pages() {
    locked here;
    list<pages> found{};
    for (block& each : blocks)
        if (each.mapped) found.add({each.start, each.start + (each.mapped - 2 * guard), each.kind == cudaMemoryTypeDevice, &each.closed});
    return found;
}
void trust_memory() {
    locked here;
    for (block& each : blocks) each.trusted = true;
}
static void note_written(void const* target, size_t size, void const* source = nullptr) {
    locked here;
    block *to = find(target), *from = source ? find(source) : nullptr;
    if (!to || !to->written) return;
    unsigned char* bytes = to->written + (size_t(target) - to->start);
    if (from && from->written && !from->trusted) memmove(bytes, from->written + (size_t(source) - from->start), size);
    else memset(bytes, 1, size);
}
cudaError_t allocate(void** address, size_t size, cudaMemoryType kind) {
    if (!address) return report(cudaErrorInvalidValue);
    if (size == 0) {
        *address = nullptr;
        return report(cudaSuccess);
    }
    locked here;
    block made = size > total_memory() ? block{} : memory(size, kind);
    if (!made.owner) return report(cudaErrorMemoryAllocation);
    // What the host may write itself, and a GPU, is not known.
    if (checking() && kind == cudaMemoryTypeDevice && !gpu.allocate) made.written = (unsigned char*)calloc(size, 1);
    add(made);
    used += size;
    most_used = used > most_used ? used : most_used;
    *address = (void*)made.start;
    close_pages();
    return report(cudaSuccess);
}

void* heap(size_t size) {
    locked here;
    char* made = (char*)malloc(size ? size : 1);
    size_t start = size_t(made), end = start + size, after = 0;
    while (after < blocks.count && blocks[after].start < end) ++after;
    // What code that is not checked has given back is still there.
    while (after > 0 && blocks[after - 1].end > start && !blocks[after - 1].mapped) blocks.remove(--after);
    if (made) add({start, end, made, 0, cudaMemoryTypeDevice});
    return made;
}
bool leave_heap(void* address) {
    locked here;
    block* found = find(address);
    if (!found || found->start != size_t(address) || found->mapped || !found->owner) return false;
    free(found->owner);
    blocks.remove(size_t(found - blocks.items));
    return true;
}

static void leave_reserved(void const* address);
cudaError_t release(void* address, bool registered) {
    if (!address) return report(registered ? cudaErrorInvalidValue : cudaSuccess);
    if (size_t start, end; !registered && (!bounds_of(address, &start, &end) || start != size_t(address))) {
        char message[96];
        snprintf(message, sizeof message, "%p is freed, where no allocation begins, or begins any longer", address);
        note_in_host_code("dangling-pointer", message);
    }
    locked here;
    block* found = find(address);
    if (found && found->start != size_t(address)) found = nullptr;
    if (!found || (found->owner == nullptr) != registered)
        return report(registered ? cudaErrorHostMemoryNotRegistered : cudaErrorInvalidValue);
    if (found->owner && !found->reserved) used -= found->end - found->start;
    bool reserved = found->reserved;
    if (registered && gpu.show) gpu.show(address, 0);
    if (!reserved) give_back(*found);
    blocks.remove(size_t(found - blocks.items));
    if (reserved) leave_reserved(address);
    return report(cudaSuccess);
}

// Memory of graphs. An allocation that is there counts as one that holds its memory.
struct reservation {
    block memory;
    unsigned holders;
};
static list<reservation> reservations;
static size_t reserved_now, reserved_most, in_graphs, in_graphs_most;
static reservation* reservation_of(void const* address) {
    for (reservation& each : reservations)
        if (each.memory.start == size_t(address)) return &each;
    return nullptr;
}
void* reserve(size_t size) {
    locked here;
    block made = size == 0 || size > total_memory() ? block{} : memory(size, cudaMemoryTypeDevice);
    if (!made.owner) return nullptr;
    made.reserved = true;
    reservations.add({made, 0});
    reserved_now += size;
    reserved_most = reserved_now > reserved_most ? reserved_now : reserved_most;
    return (void*)made.start;
}
static bool is_there(void const* address) {
    block* found = find(address);
    return found && found->start == size_t(address) && found->reserved;
}
void hold_reserved(void const* address, bool more) {
    locked here;
    reservation* found = reservation_of(address);
    if (!found) return;
    found->holders += more ? 1 : unsigned(-1);
    if (found->holders) return;
    reserved_now -= found->memory.end - found->memory.start;
    give_back(found->memory);
    reservations.remove(size_t(found - reservations.items));
}
cudaError_t allocate_reserved(void const* address, bool again) {
    locked here;
    reservation* found = reservation_of(address);
    if (!found || is_there(address)) return found && again ? cudaSuccess : cudaErrorInvalidValue;
    add(found->memory);
    ++found->holders;
    in_graphs += found->memory.end - found->memory.start;
    in_graphs_most = in_graphs > in_graphs_most ? in_graphs : in_graphs_most;
    return cudaSuccess;
}
// A graph's allocation is freed.
static void leave_reserved(void const* address) {
    reservation* found = reservation_of(address);
    in_graphs -= found->memory.end - found->memory.start;
    hold_reserved(address, false);
}

void forget_memory() {
    locked here;
    while (blocks.count) {
        block last = blocks[--blocks.count];
        if (last.reserved) leave_reserved((void*)last.start);
        else give_back(last);
    }
    homes.count = 0;
    used = 0;
}

// Whether `size` bytes at `address` may be used. Of host memory nothing is known, unless the runtime gave it.
static bool usable(void const* address, size_t size, bool on_device, char const* use) {
    {
        locked here;
        // What begins where a variable, or registered memory, ends is memory of the host.
        block const* found = find(address);
        bool const other = !found || (!found->owner && found->end == size_t(address));
        if (address && ((!on_device && other) || holds(address, size))) return true;
    }
    char message[160];
    size_t start, end;
    bool const known = bounds_of(address, &start, &end);
    if (known)
        snprintf(message, sizeof message, "%zu bytes %s byte %zu of an allocation of %zu bytes", size, use,
                 size_t(address) - start, end - start);
    else snprintf(message, sizeof message, "%zu bytes %s %p, which is no memory of the device", size, use, address);
    note_in_host_code(known ? "out-of-bounds" : "dangling-pointer", message);
    return false;
}

static bool is_on_gpu(void const* address) {
    locked here;
    block* found = find(address);
    return found && found->on_gpu;
}
static void move(void* target, void const* source, size_t size) { memmove(target, source, size); }
cudaError_t copy(void* target, void const* source, size_t size, cudaMemcpyKind kind) {
    if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault) return cudaErrorInvalidMemcpyDirection;
    if (size == 0) return cudaSuccess;
    bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    if (!usable(target, size, to_device, "copied to") || !usable(source, size, from_device, "copied from"))
        return cudaErrorInvalidValue;
    (is_on_gpu(target) || is_on_gpu(source) ? gpu.move : move)(target, source, size);
    note_written(target, size, source);
    note_result(target, size, "a copy");
    return cudaSuccess;
}

cudaError_t copy3d(cudaMemcpy3DParms const& how) {
    cudaExtent const& e = how.extent;
    if (how.srcArray || how.dstArray) return cudaErrorNotSupported;
    if (e.width == 0 || e.height == 0 || e.depth == 0) return cudaSuccess;
    bool rows = e.height > 1 || e.depth > 1;
    if (rows && (how.srcPtr.pitch < how.srcPos.x + e.width || how.dstPtr.pitch < how.dstPos.x + e.width))
        return cudaErrorInvalidPitchValue;
    for (size_t z = 0; z < e.depth; ++z)
        for (size_t y = 0; y < e.height; ++y) {
            auto row = [&](cudaPitchedPtr const& p, cudaPos const& at) {
                return (char*)p.ptr + ((at.z + z) * p.ysize + at.y + y) * p.pitch + at.x;
            };
            cudaError_t error = copy(row(how.dstPtr, how.dstPos), row(how.srcPtr, how.srcPos), e.width, how.kind);
            if (error != cudaSuccess) return error;
        }
    return cudaSuccess;
}

cudaError_t fill(void* address, unsigned value, unsigned element, size_t count) {
    if (count == 0) return cudaSuccess;
    if (!usable(address, count * element, true, "set at")) return cudaErrorInvalidValue;
    char* to = is_on_gpu(address) ? (char*)malloc(count * element) : (char*)address;
    if (element == 1) memset(to, int(value & 255), count);
    for (size_t i = 0; element > 1 && i < count; ++i) memcpy(to + i * element, &value, element);
    note_written(address, count * element);
    note_result(address, count * element, "a fill");
    if (to == address) return cudaSuccess;
    gpu.move(address, to, count * element);
    free(to);
    return cudaSuccess;
}

}  // namespace tilewright

using namespace tilewright;

// Work of a stream that is captured becomes a node.
static cudaError_t done_on(cudaStream_t stream, node const& what) {
    cudaError_t error = on(stream);
    if (error != cudaSuccess) return report(error);
    if (capturing(stream)) return report(capture(stream, what));
    return report(in_order(stream, false, [&] { return run(what, false); }, [&] { return what; }));
}
static cudaError_t copy_on(cudaStream_t stream, cudaMemcpy3DParms const& how) {
    node made{};
    made.type = cudaGraphNodeTypeMemcpy;
    made.copy = how;
    cudaError_t const error = done_on(stream, made);
    // Copies of memory that the runtime has not given end before the call returns.
    auto const plain = [](void* address) { return !holds(address, 0); };
    bool const ends = !capturing(stream) && (plain(how.srcPtr.ptr) || plain(how.dstPtr.ptr));
    return error == cudaSuccess && ends ? report(join(stream, false)) : error;
}
static cudaError_t fill_on(cudaStream_t stream, cudaMemsetParams const& how) {
    node made{};
    made.type = cudaGraphNodeTypeMemset;
    made.fill = how;
    return done_on(stream, made);
}
// The end of a call that returns once the default stream has done what it asked for.
static cudaError_t ended(cudaError_t error) { return error == cudaSuccess ? report(join(cudaStream_t(nullptr), false)) : error; }
static cudaMemcpy3DParms plane(void* target, size_t target_pitch, void const* source, size_t source_pitch, size_t width,
                               size_t height, cudaMemcpyKind kind) {
    cudaMemcpy3DParms how{};
    how.srcPtr = {(void*)source, source_pitch, width, height};
    how.dstPtr = {target, target_pitch, width, height};
    how.extent = {width, height, 1};
    how.kind = kind;
    return how;
}

extern "C" {
// For `tilewright run`: other memory; and the bounds of the allocation that an address is in or at the end of.
void __tw_set_gpu(void* (*allocate)(size_t), void (*release)(void*), void* (*variable)(void const*),
                  void (*move)(void*, void const*, size_t), void (*show)(void*, size_t)) {
    gpu = {allocate, release, variable, move, show};
}
int __tw_memory_bounds(void const* address, size_t* bounds) { return bounds_of(address, bounds, bounds + 1); }

// The bounds of all allocations, of which `room` have place in `bounds`; how many there are.
size_t __tw_memory_allocations(size_t* bounds, size_t room) {
    locked here;
    for (size_t i = 0; i < blocks.count && i < room; ++i) {
        bounds[2 * i] = blocks[i].start;
        bounds[2 * i + 1] = blocks[i].end;
    }
    return blocks.count;
}

// Where copies find a variable of the device: on the GPU, once the program has asked for the address, and so said its size.
char* __tw_symbol(void const volatile* given, size_t size) {
    auto const* address = (void const*)given;
    locked here;
    for (home const& each : homes)
        if (each.variable == address) return each.memory;
    if (!size) return (char*)address;
    char* there = gpu.variable ? (char*)gpu.variable(address) : nullptr;
    if (gpu.variable && !there) {  // no kernel names it
        block const made = memory(size, cudaMemoryTypeDevice);
        if (!made.owner) return nullptr;
        add(made);
        there = (char*)memcpy((void*)made.start, address, size);
    }
    if (there) homes.add({address, there});
    size_t start = size_t(there ? there : address);
    block* found = find((void*)start);
    if (!found || found->start != start)
        add({start, start + size, nullptr, 0, cudaMemoryTypeDevice, 0, false, false, false, {}, {}, there != nullptr});
    return (char*)start;
}
cudaError_t cudaMalloc(void** address, size_t size) { return allocate(address, size, cudaMemoryTypeDevice); }
cudaError_t cudaMallocAsync(void** address, size_t size, cudaStream_t stream) {
    cudaError_t error = on(stream);
    if (error != cudaSuccess || !capturing(stream)) return error != cudaSuccess ? report(error) : cudaMalloc(address, size);
    node made{};
    made.type = cudaGraphNodeTypeMemAlloc;
    made.memory.poolProps.allocType = cudaMemAllocationTypePinned;
    made.memory.poolProps.location = {cudaMemLocationTypeDevice, 0};
    made.memory.bytesize = size;
    if (!address) return report(cudaErrorInvalidValue);
    *address = made.memory.dptr = reserve(size);
    return report(*address ? capture(stream, made) : cudaErrorMemoryAllocation);
}
cudaError_t cudaMallocManaged(void** address, size_t size, unsigned int flags) {
    if (size == 0 || (flags != cudaMemAttachGlobal && flags != cudaMemAttachHost)) return report(cudaErrorInvalidValue);
    return allocate(address, size, cudaMemoryTypeManaged);
}
cudaError_t cudaMallocHost(void** address, size_t size) { return allocate(address, size, cudaMemoryTypeHost); }
cudaError_t cudaHostAlloc(void** address, size_t size, unsigned int flags) {
    cudaError_t error = flags < 8 ? allocate(address, size, cudaMemoryTypeHost) : report(cudaErrorInvalidValue);
    locked here;
    if (error == cudaSuccess && *address) find(*address)->flags = flags;
    return error;
}
cudaError_t cudaHostGetFlags(unsigned int* flags, void* address) {
    locked here;
    block* found = find(address);
    bool given = flags && found && found->kind == cudaMemoryTypeHost && size_t(address) < found->end;
    if (given) *flags = found->flags;
    return report(given ? cudaSuccess : cudaErrorInvalidValue);
}
static cudaError_t released_at_last(void* address) {
    cudaError_t const error = join_all();
    return error != cudaSuccess ? report(error) : release(address, false);
}
cudaError_t cudaFree(void* address) { return released_at_last(address); }
cudaError_t cudaFreeAsync(void* address, cudaStream_t stream) {
    node made{};
    made.type = cudaGraphNodeTypeMemFree;
    made.memory.dptr = address;
    return done_on(stream, made);
}
cudaError_t cudaFreeHost(void* address) { return released_at_last(address); }
cudaError_t cudaHostRegister(void* address, size_t size, unsigned int flags) {
    if (!address || size == 0 || flags > 15) return report(cudaErrorInvalidValue);
    locked here;
    if (find(address)) return report(cudaErrorHostMemoryAlreadyRegistered);
    add({size_t(address), size_t(address) + size, nullptr, 0, cudaMemoryTypeHost, flags});
    if (gpu.show) gpu.show(address, size);
    return report(cudaSuccess);
}
cudaError_t cudaHostUnregister(void* address) { return release(address, true); }

cudaError_t cudaMemcpy(void* target, void const* source, size_t size, cudaMemcpyKind kind) {
    cudaError_t const error = cudaMemcpyAsync(target, source, size, kind, nullptr);
    return kind == cudaMemcpyDeviceToDevice ? error : ended(error);
}
cudaError_t cudaMemcpyAsync(void* target, void const* source, size_t size, cudaMemcpyKind kind, cudaStream_t stream) {
    return copy_on(stream, plane(target, size, source, size, size, 1, kind));
}
cudaError_t cudaMemcpy2D(void* target, size_t target_pitch, void const* source, size_t source_pitch, size_t width,
                         size_t height, cudaMemcpyKind kind) {
    return ended(cudaMemcpy2DAsync(target, target_pitch, source, source_pitch, width, height, kind, nullptr));
}
cudaError_t cudaMemcpy2DAsync(void* target, size_t target_pitch, void const* source, size_t source_pitch, size_t width,
                              size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
    if (width > target_pitch || width > source_pitch) return report(cudaErrorInvalidPitchValue);
    return copy_on(stream, plane(target, target_pitch, source, source_pitch, width, height, kind));
}
cudaError_t cudaMemcpy3D(cudaMemcpy3DParms const* how) { return ended(cudaMemcpy3DAsync(how, nullptr)); }
cudaError_t cudaMemcpy3DAsync(cudaMemcpy3DParms const* how, cudaStream_t stream) {
    return how ? copy_on(stream, *how) : report(cudaErrorInvalidValue);
}
cudaError_t cudaMemset(void* address, int value, size_t size) { return ended(cudaMemsetAsync(address, value, size, nullptr)); }
cudaError_t cudaMemsetAsync(void* address, int value, size_t size, cudaStream_t stream) {
    return fill_on(stream, {address, size, unsigned(value), 1, size, 1});
}
cudaError_t cudaMemset2D(void* address, size_t pitch, int value, size_t width, size_t height) {
    return ended(cudaMemset2DAsync(address, pitch, value, width, height, nullptr));
}
cudaError_t cudaMemset2DAsync(void* address, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream) {
    if (width > pitch) return report(cudaErrorInvalidPitchValue);
    return fill_on(stream, {address, pitch, unsigned(value), 1, width, height});
}
cudaError_t cudaMemset3D(cudaPitchedPtr at, int value, cudaExtent extent) {
    return ended(cudaMemset3DAsync(at, value, extent, nullptr));
}
cudaError_t cudaMemset3DAsync(cudaPitchedPtr at, int value, cudaExtent extent, cudaStream_t stream) {
    for (size_t z = 0; z < extent.depth; ++z) {
        void* start = (char*)at.ptr + z * at.ysize * at.pitch;
        cudaError_t error = cudaMemset2DAsync(start, at.pitch, value, extent.width, extent.height, stream);
        if (error != cudaSuccess) return error;
    }
    return report(cudaSuccess);
}
cudaError_t cudaMallocPitch(void** address, size_t* pitch, size_t width, size_t height) {
    if (!pitch) return report(cudaErrorInvalidValue);
    *pitch = (width + 511) / 512 * 512;
    return cudaMalloc(address, *pitch * height);
}
cudaError_t cudaMalloc3D(cudaPitchedPtr* made, cudaExtent extent) {
    if (!made) return report(cudaErrorInvalidValue);
    made->xsize = extent.width;
    made->ysize = extent.height;
    return cudaMallocPitch(&made->ptr, &made->pitch, extent.width, extent.height * extent.depth);
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* found, void const* address) {
    if (!found) return report(cudaErrorInvalidValue);
    locked here;
    block* in = find(address);
    cudaMemoryType kind = in && size_t(address) < in->end ? in->kind : cudaMemoryTypeUnregistered;
    bool unknown = kind == cudaMemoryTypeUnregistered;
    *found = {kind, unknown ? -2 : 0, unknown ? nullptr : (void*)address,
              kind == cudaMemoryTypeDevice ? nullptr : (void*)address};
    return report(cudaSuccess);
}
// Of a whole allocation: what the program says of a part of it counts for all.
cudaError_t cudaMemAdvise(void const* address, size_t size, cudaMemoryAdvise advice, cudaMemLocation location) {
    if (!address || !size || advice < cudaMemAdviseSetReadMostly || advice > cudaMemAdviseUnsetAccessedBy)
        return report(cudaErrorInvalidValue);
    if (location.type == cudaMemLocationTypeDevice && location.id != 0) return report(cudaErrorInvalidDevice);
    locked here;
    block* found = find(address);
    if (!found) return report(cudaSuccess);  // memory of the host, which the device uses, too
    if (advice <= cudaMemAdviseUnsetReadMostly) found->read_mostly = advice == cudaMemAdviseSetReadMostly;
    else if (advice == cudaMemAdviseSetPreferredLocation) found->preferred = location;
    else if (advice == cudaMemAdviseUnsetPreferredLocation) found->preferred = {};
    else if (location.type == cudaMemLocationTypeDevice) found->used_by_device = advice == cudaMemAdviseSetAccessedBy;
    return report(cudaSuccess);
}
cudaError_t cudaMemPrefetchAsync(void const* address, size_t size, cudaMemLocation location, unsigned int flags,
                                 cudaStream_t stream) {
    if (!address || !size || flags) return report(cudaErrorInvalidValue);
    if (location.type == cudaMemLocationTypeDevice && location.id != 0) return report(cudaErrorInvalidDevice);
    locked here;
    if (block* found = find(address)) found->prefetched = location;
    return report(on(stream));
}
cudaError_t cudaMemRangeGetAttribute(void* value, size_t bytes, cudaMemRangeAttribute attribute, void const* address,
                                     size_t size) {
    locked here;
    if (!value || bytes < 4 || bytes % 4 || !holds(address, size) || !size) return report(cudaErrorInvalidValue);
    block const& of = *find(address);
    auto device = [](cudaMemLocation const& place) {
        return place.type == cudaMemLocationTypeInvalid ? cudaInvalidDeviceId : place.type == cudaMemLocationTypeDevice ? place.id : cudaCpuDeviceId;
    };
    auto* out = (int*)value;
    switch (attribute) {
        case cudaMemRangeAttributeReadMostly: *out = of.read_mostly; break;
        case cudaMemRangeAttributePreferredLocation: *out = device(of.preferred); break;
        case cudaMemRangeAttributeLastPrefetchLocation: *out = device(of.prefetched); break;
        case cudaMemRangeAttributePreferredLocationType: *out = of.preferred.type; break;
        case cudaMemRangeAttributePreferredLocationId: *out = of.preferred.id; break;
        case cudaMemRangeAttributeLastPrefetchLocationType: *out = of.prefetched.type; break;
        case cudaMemRangeAttributeLastPrefetchLocationId: *out = of.prefetched.id; break;
        case cudaMemRangeAttributeAccessedBy:
            for (size_t i = 0; i < bytes / 4; ++i) out[i] = i == 0 && of.used_by_device ? 0 : cudaInvalidDeviceId;
            break;
        default: return report(cudaErrorInvalidValue);
    }
    return report(cudaSuccess);
}
// Memory that graphs allocate.
cudaError_t cudaDeviceGetGraphMemAttribute(int device, cudaGraphMemAttributeType attribute, void* value) {
    if (device) return report(cudaErrorInvalidDevice);
    locked here;
    size_t const values[] = {in_graphs, in_graphs_most, reserved_now, reserved_most};
    if (!value || unsigned(attribute) > cudaGraphMemAttrReservedMemHigh) return report(cudaErrorInvalidValue);
    *(unsigned long long*)value = values[attribute];
    return report(cudaSuccess);
}
cudaError_t cudaDeviceSetGraphMemAttribute(int device, cudaGraphMemAttributeType attribute, void* value) {
    if (device) return report(cudaErrorInvalidDevice);
    locked here;
    bool highest = attribute == cudaGraphMemAttrUsedMemHigh || attribute == cudaGraphMemAttrReservedMemHigh;
    if (!value || !highest || *(unsigned long long*)value) return report(cudaErrorInvalidValue);
    (attribute == cudaGraphMemAttrUsedMemHigh ? in_graphs_most : reserved_most) = attribute == cudaGraphMemAttrUsedMemHigh ? in_graphs : reserved_now;
    return report(cudaSuccess);
}
cudaError_t cudaDeviceGraphMemTrim(int device) { return report(device ? cudaErrorInvalidDevice : cudaSuccess); }
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
    if (!free && !total) return report(cudaErrorInvalidValue);
    if (free) *free = size_t(sysconf(_SC_PAGESIZE)) * size_t(sysconf(_SC_AVPHYS_PAGES));
    if (total) *total = total_memory();
    return report(cudaSuccess);
}

// Pools are names for the one heap: memory goes back to the system when it is freed.
struct CUmemPoolHandle_st {
    unsigned long long threshold;
    int reuse[4];
};
static CUmemPoolHandle_st default_pool{0, {1, 1, 1, 1}};
static cudaMemPool_t current_pool = &default_pool;
static list<cudaMemPool_t> pools;
static bool is_pool(cudaMemPool_t pool) { return pool == &default_pool || pools.holds(pool); }

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
    if (!pool || device) return report(pool ? cudaErrorInvalidDevice : cudaErrorInvalidValue);
    *pool = &default_pool;
    return report(cudaSuccess);
}
cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int device) {
    if (!pool || device) return report(pool ? cudaErrorInvalidDevice : cudaErrorInvalidValue);
    *pool = current_pool;
    return report(cudaSuccess);
}
cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t pool) {
    locked here;
    if (device || !is_pool(pool)) return report(device ? cudaErrorInvalidDevice : cudaErrorInvalidValue);
    current_pool = pool;
    return report(cudaSuccess);
}
static bool is_device(cudaMemLocation const* location, cudaMemAllocationType type) {
    return location && location->type == cudaMemLocationTypeDevice && location->id == 0 && type == cudaMemAllocationTypePinned;
}
cudaError_t cudaMemGetDefaultMemPool(cudaMemPool_t* pool, cudaMemLocation* location, cudaMemAllocationType type) {
    return is_device(location, type) ? cudaDeviceGetDefaultMemPool(pool, 0) : report(cudaErrorInvalidValue);
}
cudaError_t cudaMemGetMemPool(cudaMemPool_t* pool, cudaMemLocation* location, cudaMemAllocationType type) {
    return is_device(location, type) ? cudaDeviceGetMemPool(pool, 0) : report(cudaErrorInvalidValue);
}
cudaError_t cudaMemSetMemPool(cudaMemLocation* location, cudaMemAllocationType type, cudaMemPool_t pool) {
    return is_device(location, type) ? cudaDeviceSetMemPool(0, pool) : report(cudaErrorInvalidValue);
}
cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, cudaMemPoolProps const* properties) {
    if (!pool || !properties || properties->allocType != cudaMemAllocationTypePinned)
        return report(cudaErrorInvalidValue);
    if (properties->handleTypes != cudaMemHandleTypeNone) return report(cudaErrorNotSupported);
    locked here;
    *pool = pools.add((cudaMemPool_t)malloc(sizeof(CUmemPoolHandle_st)));
    **pool = {0, {1, 1, 1, 1}};
    return report(cudaSuccess);
}
cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
    locked here;
    if (!pools.discard(pool)) return report(cudaErrorInvalidValue);
    if (current_pool == pool) current_pool = &default_pool;
    free(pool);
    return report(cudaSuccess);
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
    locked here;
    if (!is_pool(pool) || !value || attribute < 1 || attribute > 8) return report(cudaErrorInvalidValue);
    if (attribute < cudaMemPoolAttrReleaseThreshold) pool->reuse[attribute] = *(int*)value;
    else if (attribute == cudaMemPoolAttrReleaseThreshold) pool->threshold = *(unsigned long long*)value;
    else if (attribute == cudaMemPoolAttrUsedMemHigh || attribute == cudaMemPoolAttrReservedMemHigh) most_used = used;
    else return report(cudaErrorInvalidValue);
    return report(cudaSuccess);
}
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
    locked here;
    if (!is_pool(pool) || !value || attribute < 1 || attribute > cudaMemPoolAttrHwDecompressEnabled) return report(cudaErrorInvalidValue);
    auto* wide = (unsigned long long*)value;
    if (attribute < cudaMemPoolAttrReleaseThreshold) *(int*)value = pool->reuse[attribute];
    else if (attribute == cudaMemPoolAttrReleaseThreshold) *wide = pool->threshold;
    else if (attribute == cudaMemPoolAttrMaxPoolSize) *wide = 0;
    else if (attribute == cudaMemPoolAttrAllocationType) *(int*)value = cudaMemAllocationTypePinned;
    else if (attribute == cudaMemPoolAttrLocationType) *(int*)value = cudaMemLocationTypeDevice;
    else if (attribute > cudaMemPoolAttrUsedMemHigh) *(int*)value = 0;
    else *wide = attribute == cudaMemPoolAttrUsedMemHigh || attribute == cudaMemPoolAttrReservedMemHigh ? most_used : used;
    return report(cudaSuccess);
}
cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, cudaMemAccessDesc const* list, size_t count) {
    locked here;
    return report(is_pool(pool) && (list || !count) ? cudaSuccess : cudaErrorInvalidValue);
}
cudaError_t cudaMemPoolGetAccess(cudaMemAccessFlags* flags, cudaMemPool_t pool, cudaMemLocation*) {
    locked here;
    if (!flags || !is_pool(pool)) return report(cudaErrorInvalidValue);
    *flags = cudaMemAccessFlagsProtReadWrite;
    return report(cudaSuccess);
}
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t) {
    locked here;
    return report(is_pool(pool) ? cudaSuccess : cudaErrorInvalidValue);
}
cudaError_t cudaMallocFromPoolAsync(void** address, size_t size, cudaMemPool_t pool, cudaStream_t stream) {
    {
        locked here;
        if (!is_pool(pool)) return report(cudaErrorInvalidValue);
    }
    return cudaMallocAsync(address, size, stream);
}
}
