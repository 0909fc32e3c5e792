#include "arch/model.h"

#include <string.h>

grail_status grail_model_digest(const grail_model *model, char out[HASH_TEXT_SIZE])
{
    enum { BYTES = 512 };
    hash_state state;
    hash_begin(&state);
    for (int64_t i = 0; i < checkpoint_count(model->checkpoint); i++) {
        const tensor_view *t = checkpoint_at(model->checkpoint, i);
        CHECK(checkpoint_need(model->checkpoint, t));
        const size_t some = t->bytes < BYTES ? t->bytes : BYTES;
        hash_add(&state, t->name, strlen(t->name) + 1);
        hash_add(&state, &t->dtype, sizeof t->dtype);
        hash_add(&state, t->shape, (size_t)t->rank * sizeof t->shape[0]);
        if (t->data != NULL && some > 0) {
            hash_add(&state, t->data, some);
            hash_add(&state, (const char *)t->data + (t->bytes - some), some);
        }
        checkpoint_release(model->checkpoint, t);
    }
    hash_end(&state, out);
    return GRAIL_OK;
}
