// Types of what a CPU has not: textures, surfaces, arrays, handles between processes. Host code that describes them
// compiles; the functions that take them return cudaErrorNotSupported, and what reads textures is an error at its line.
#pragma once
#pragma clang system_header

#define TW_KIND(name, number) cudaChannelFormatKind##name = number
#define TW_SIZES(name, number) TW_KIND(name##X1, number), TW_KIND(name##X2, number + 1), TW_KIND(name##X4, number + 2)
enum cudaChannelFormatKind {
    TW_KIND(Signed, 0), TW_KIND(Unsigned, 1), TW_KIND(Float, 2), TW_KIND(None, 3), TW_KIND(NV12, 4),
    TW_SIZES(UnsignedNormalized8, 5), TW_SIZES(UnsignedNormalized16, 8), TW_SIZES(SignedNormalized8, 11),
    TW_SIZES(SignedNormalized16, 14), TW_KIND(UnsignedBlockCompressed1, 17), TW_KIND(UnsignedBlockCompressed1SRGB, 18),
    TW_KIND(UnsignedBlockCompressed2, 19), TW_KIND(UnsignedBlockCompressed2SRGB, 20),
    TW_KIND(UnsignedBlockCompressed3, 21), TW_KIND(UnsignedBlockCompressed3SRGB, 22),
    TW_KIND(UnsignedBlockCompressed4, 23), TW_KIND(SignedBlockCompressed4, 24), TW_KIND(UnsignedBlockCompressed5, 25),
    TW_KIND(SignedBlockCompressed5, 26), TW_KIND(UnsignedBlockCompressed6H, 27), TW_KIND(SignedBlockCompressed6H, 28),
    TW_KIND(UnsignedBlockCompressed7, 29), TW_KIND(UnsignedBlockCompressed7SRGB, 30),
    TW_KIND(UnsignedNormalized1010102, 31)
};
#undef TW_SIZES
#undef TW_KIND
struct cudaChannelFormatDesc {
    int x, y, z, w;
    cudaChannelFormatKind f;
};
inline cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w, cudaChannelFormatKind f) {
    return {x, y, z, w, f};
}
namespace __tw_host {
template <typename E>
inline cudaChannelFormatDesc channels(int count) {
    int bits = int(8 * sizeof(E)), width[4] = {};
    for (int i = 0; i < count; ++i) width[i] = bits;
    bool whole = E(0.5f) == E(0), negative = E(-1) < E(0);
    return {width[0], width[1], width[2], width[3],
            !whole     ? cudaChannelFormatKindFloat
            : negative ? cudaChannelFormatKindSigned
                       : cudaChannelFormatKindUnsigned};
}
template <typename T, typename E = decltype(T::x)>
inline cudaChannelFormatDesc channels_of(int) {
    return channels<E>(int(sizeof(T) / sizeof(E)));
}
template <typename T>
inline cudaChannelFormatDesc channels_of(long) {
    return channels<T>(1);
}
}  // namespace __tw_host
// Of a number, or of a vector of these: its fields are as wide as its first one.
template <typename T>
inline cudaChannelFormatDesc cudaCreateChannelDesc() {
    return __tw_host::channels_of<T>(0);
}

enum : unsigned int {
    cudaArrayDefault = 0, cudaArrayLayered = 1, cudaArraySurfaceLoadStore = 2, cudaArrayCubemap = 4,
    cudaArrayTextureGather = 8, cudaArrayColorAttachment = 32, cudaArraySparse = 64, cudaArrayDeferredMapping = 128,
    cudaArraySparsePropertiesSingleMipTail = 1
};
struct cudaArraySparseProperties {
    struct {
        unsigned int width, height, depth;
    } tileExtent;
    unsigned int miptailFirstLevel;
    unsigned long long miptailSize;
    unsigned int flags, reserved[4];
};
struct cudaArrayMemoryRequirements {
    size_t size, alignment;
    unsigned int reserved[4];
};

enum cudaResourceType {
    cudaResourceTypeArray = 0, cudaResourceTypeMipmappedArray = 1, cudaResourceTypeLinear = 2, cudaResourceTypePitch2D = 3
};
struct cudaResourceDesc {
    cudaResourceType resType;
    union {
        struct {
            cudaArray_t array;
        } array;
        struct {
            cudaMipmappedArray_t mipmap;
        } mipmap;
        struct {
            void* devPtr;
            cudaChannelFormatDesc desc;
            size_t sizeInBytes;
        } linear;
        struct {
            void* devPtr;
            cudaChannelFormatDesc desc;
            size_t width, height, pitchInBytes;
        } pitch2D;
        struct {
            int reserved[32];
        } reserved;
    } res;
    unsigned int flags;
};
#define TW_VIEW(name, number) cudaResViewFormat##name = number
#define TW_SIZES(name, number) TW_VIEW(name##1, number), TW_VIEW(name##2, number + 1), TW_VIEW(name##4, number + 2)
enum cudaResourceViewFormat {
    TW_VIEW(None, 0), TW_SIZES(UnsignedChar, 1), TW_SIZES(SignedChar, 4), TW_SIZES(UnsignedShort, 7),
    TW_SIZES(SignedShort, 10), TW_SIZES(UnsignedInt, 13), TW_SIZES(SignedInt, 16), TW_SIZES(Half, 19),
    TW_SIZES(Float, 22), TW_VIEW(UnsignedBlockCompressed1, 25), TW_VIEW(UnsignedBlockCompressed2, 26),
    TW_VIEW(UnsignedBlockCompressed3, 27), TW_VIEW(UnsignedBlockCompressed4, 28), TW_VIEW(SignedBlockCompressed4, 29),
    TW_VIEW(UnsignedBlockCompressed5, 30), TW_VIEW(SignedBlockCompressed5, 31), TW_VIEW(UnsignedBlockCompressed6H, 32),
    TW_VIEW(SignedBlockCompressed6H, 33), TW_VIEW(UnsignedBlockCompressed7, 34)
};
#undef TW_SIZES
#undef TW_VIEW
struct cudaResourceViewDesc {
    cudaResourceViewFormat format;
    size_t width, height, depth;
    unsigned int firstMipmapLevel, lastMipmapLevel, firstLayer, lastLayer, reserved[16];
};

enum cudaTextureAddressMode {
    cudaAddressModeWrap = 0, cudaAddressModeClamp = 1, cudaAddressModeMirror = 2, cudaAddressModeBorder = 3
};
enum cudaTextureFilterMode { cudaFilterModePoint = 0, cudaFilterModeLinear = 1 };
enum cudaTextureReadMode { cudaReadModeElementType = 0, cudaReadModeNormalizedFloat = 1 };
struct cudaTextureDesc {
    cudaTextureAddressMode addressMode[3];
    cudaTextureFilterMode filterMode;
    cudaTextureReadMode readMode;
    int sRGB;
    float borderColor[4];
    int normalizedCoords;
    unsigned int maxAnisotropy;
    cudaTextureFilterMode mipmapFilterMode;
    float mipmapLevelBias, minMipmapLevelClamp, maxMipmapLevelClamp;
    int disableTrilinearOptimization, seamlessCubemap;
};
enum cudaSurfaceBoundaryMode { cudaBoundaryModeZero = 0, cudaBoundaryModeClamp = 1, cudaBoundaryModeTrap = 2 };
enum cudaSurfaceFormatMode { cudaFormatModeForced = 0, cudaFormatModeAuto = 1 };
enum : unsigned int {
    cudaTextureType1D = 1, cudaTextureType2D = 2, cudaTextureType3D = 3, cudaTextureTypeCubemap = 0xC,
    cudaTextureType1DLayered = 0xF1, cudaTextureType2DLayered = 0xF2, cudaTextureTypeCubemapLayered = 0xFC,
    cudaSurfaceType1D = 1, cudaSurfaceType2D = 2, cudaSurfaceType3D = 3, cudaSurfaceTypeCubemap = 0xC,
    cudaSurfaceType1DLayered = 0xF1, cudaSurfaceType2DLayered = 0xF2, cudaSurfaceTypeCubemapLayered = 0xFC
};

enum cudaDeviceP2PAttr {
    cudaDevP2PAttrPerformanceRank = 1, cudaDevP2PAttrAccessSupported = 2, cudaDevP2PAttrNativeAtomicSupported = 3,
    cudaDevP2PAttrCudaArrayAccessSupported = 4, cudaDevP2PAttrOnlyPartialNativeAtomicSupported = 5
};
enum : unsigned int { cudaIpcMemLazyEnablePeerAccess = 1 };
struct cudaIpcEventHandle_t {
    char reserved[64];
};
struct cudaIpcMemHandle_t {
    char reserved[64];
};
