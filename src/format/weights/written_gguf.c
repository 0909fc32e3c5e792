/* Weights in GGUF files, with the keys of the file that was read unless others are given. */
#include "format/weights/weights_format.h"

/* Its blocks are written as another type, which its name may contradict. */
static bool has_blocks(const checkpoint *like)
{
    for (int64_t i = 0; i < checkpoint_count(like); i++) {
        if (dtype_block(checkpoint_at(like, i)->dtype) > 1) {
            return true;
        }
    }
    return false;
}

static grail_status file_name(const checkpoint *like, int file, bool same_format, char **out)
{
    return memory_copy_string(
        out, same_format && !has_blocks(like) ? checkpoint_file_name(like, file) : "model.gguf");
}

static grail_status open_writer(const char *path, const checkpoint *like, int file,
                                const written_form *form, int64_t count,
                                const tensor_view tensors[], layout_start start,
                                tensor_writer **out)
{
    (void)file;
    grail_status status = GRAIL_OK;
    gguf_pairs own;
    gguf_pairs_init(&own);
    if (form->pairs == NULL) {
        const gguf_metadata *m = checkpoint_metadata(like);
        for (int64_t i = 0; m != NULL && i < m->count; i++) {
            TRY(gguf_put_value(&own, m->values[i].key, &m->values[i]));
        }
    }
    TRY(gguf_writer_open(path, form->pairs == NULL ? &own : form->pairs, count, tensors, start,
                         out));
out:
    gguf_pairs_fini(&own);
    return status;
}

const weights_format weights_format_gguf = {
    .name = "gguf", .file_name = file_name, .open = open_writer};
