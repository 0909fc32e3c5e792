/* Any bytes as calibration text or token ids. The first byte chooses the kind, the rest is the
 * file. What is accepted has documents that lie within the text, or ids that are tokens. */
#include "fuzz.h"

#include "format/text/corpus.h"

static void check_text(const corpus *c)
{
    fuzz_require(c->documents > 0 && c->starts[0] == 0 && c->starts[c->documents] == c->text.size);
    for (int64_t i = 0; i < c->documents; i++) {
        fuzz_require(c->starts[i] <= c->starts[i + 1]);
    }
}

static void check_ids(const corpus *c)
{
    fuzz_require(c->id_count > 0 && (c->id_row == 0 || c->id_count == c->id_row * c->documents));
    for (int64_t i = 0; i < c->id_count; i++) {
        fuzz_require(c->ids[i] >= 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"input.txt", "input.jsonl", "input.npy"};
    corpus c = {0};
    if (size == 0 ||
        corpus_open_bytes(names[data[0] % 3], NULL, data + 1, size - 1, &c) != GRAIL_OK) {
        return 0;
    }
    if (c.ids == NULL) {
        check_text(&c);
    } else {
        check_ids(&c);
    }
    corpus_close(&c);
    return 0;
}
