/* The print op of kernels in a library: text as ir/formatting.py makes it, written by one call. */
#include <math.h>

/* A value of a print op. kind: 'd' signed, 'u' unsigned, 'c' character, 'f' float, 'a' in base 16. bytes: of an element. */
typedef struct {
  const char *format;
  char kind;
  int bytes;
  int center; /* the width of a centred field, or 0 */
  int rank;
  const int *shape;
} tw_value;

/* A print op: its pieces of text, with NULL where a value goes. */
typedef struct {
  int count;
  const char *const *parts;
  const tw_value *values;
} tw_site;

typedef struct {
  char *text;
  size_t size, room;
} tw_text;

static void tw_add(tw_text *out, const char *text, size_t size) {
  if (out->size + size > out->room) {
    size_t room = 2 * (out->size + size) + 256;
    char *grown = realloc(out->text, room);
    if (!grown) return; /* there is no memory: the text is cut short */
    out->text = grown;
    out->room = room;
  }
  memcpy(out->text + out->size, text, size);
  out->size += size;
}

static int tw_format(char *text, size_t room, const tw_value *value, const void *element) {
  if (value->kind == 'f' || value->kind == 'a') {
    float narrow;
    double number;
    if (value->bytes == 4) memcpy(&narrow, element, 4), number = narrow;
    else memcpy(&number, element, 8);
    if (isnan(number) && value->kind == 'f') number = fabs(number); /* in base 10 it has no sign */
    return snprintf(text, room, value->format, number);
  }
  uint64_t bits = 0;
  switch (value->bytes) {
    case 1: bits = *(const uint8_t *)element; break;
    case 2: bits = *(const uint16_t *)element; break;
    case 4: bits = *(const uint32_t *)element; break;
    default: bits = *(const uint64_t *)element;
  }
  if (value->kind == 'c') return snprintf(text, room, value->format, (int)(bits & 255));
  if (value->kind == 'u') {
    char format[64];
    size_t length = strlen(value->format);
    if (bits >> 63 && length < sizeof format && value->format[length - 1] == 'd') { /* more than %lld can show */
      memcpy(format, value->format, length + 1);
      format[length - 1] = 'u';
      return snprintf(text, room, format, (unsigned long long)bits);
    }
    return snprintf(text, room, value->format, (unsigned long long)bits);
  }
  int unused = 64 - 8 * value->bytes;
  return snprintf(text, room, value->format, (long long)(bits << unused) >> unused);
}

static void tw_add_element(tw_text *out, const tw_value *value, const void *element) {
  char small[128];
  char *text = small;
  int size = tw_format(small, sizeof small, value, element);
  if (size < 0) return;
  if ((size_t)size >= sizeof small) {
    text = malloc((size_t)size + 1);
    if (!text) return;
    tw_format(text, (size_t)size + 1, value, element);
  }
  int missing = value->center - size;
  int left = missing > 0 ? missing / 2 + (missing & value->center & 1) : 0; /* as Python centres */
  for (int i = 0; i < left; i++) tw_add(out, " ", 1);
  tw_add(out, text, (size_t)size);
  for (int i = left; i < missing; i++) tw_add(out, " ", 1);
  if (text != small) free(text);
}

static const char *tw_add_tile(tw_text *out, const tw_value *value, int axis, const char *element) {
  if (axis == value->rank) {
    tw_add_element(out, value, element);
    return element + value->bytes;
  }
  tw_add(out, "[", 1);
  for (int i = 0; i < value->shape[axis]; i++) {
    if (i) tw_add(out, ", ", 2);
    element = tw_add_tile(out, value, axis + 1, element);
  }
  tw_add(out, "]", 1);
  return element;
}

static void tw_print(const tw_site *site, const int64_t *addresses) {
  tw_text out = {0};
  int number = 0;
  for (int i = 0; i < site->count; i++) {
    if (site->parts[i]) {
      tw_add(&out, site->parts[i], strlen(site->parts[i]));
    } else {
      tw_add_tile(&out, &site->values[number], 0, (const char *)(intptr_t)addresses[number]);
      number++;
    }
  }
  fwrite(out.text, 1, out.size, stdout);
  free(out.text);
}
