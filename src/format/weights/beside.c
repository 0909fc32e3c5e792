#include "format/weights/beside.h"

grail_status beside_read(const checkpoint *c, const char *name, size_t maximum, char **place,
                         buffer *out)
{
    const memory_documents *documents = checkpoint_documents(c);
    buffer_init(out, maximum);
    *place = NULL;
    if (documents == NULL) {
        CHECK(path_find(place, checkpoint_directory(c), name));
        return *place == NULL ? GRAIL_OK : file_read(*place, maximum, out);
    }
    const grail_document *d = memory_documents_find(documents, name);
    if (d == NULL) {
        return GRAIL_OK;
    }
    CHECK(path_join(place, checkpoint_path(c), name));
    return (size_t)d->size <= maximum
               ? buffer_append(out, d->bytes, (size_t)d->size)
               : error_set(GRAIL_ERROR_FORMAT, "'%s' has %lld bytes, more than the allowed %zu",
                           *place, (long long)d->size, maximum);
}

grail_status beside_read_json(const checkpoint *c, const char *name, size_t maximum, char **place,
                              json_t **out)
{
    buffer text = {0};
    grail_status status = beside_read(c, name, maximum, place, &text);
    if (status == GRAIL_OK && *place != NULL) {
        status = json_parse(*place, text.bytes, text.size, out);
    }
    buffer_fini(&text);
    return status;
}
