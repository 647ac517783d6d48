// What a module tells the runtime that loads it, of which it is no part.
struct kernel { const char *name, *key; const struct part *parts; unsigned parameters; const void *simt; };
extern __attribute__((visibility("default"))) const struct kernel __tw_module_kernels[] = {ROWS {0, 0, 0, 0, 0}};
__attribute__((visibility("default"))) const void *__tw_module_codes;
__attribute__((visibility("default"))) unsigned __tw_module_count;
void __tw_register_tile_code(const void *codes, unsigned count) {
    __tw_module_codes = codes;
    __tw_module_count = count;
}
