#include "pipeline/output/companions.h"

#include "arch/model_config.h"
#include "pipeline/request/calibration_record.h"

#include <string.h>

static const char plan_name[] = "plan.json";

/* config.json, or grail.json where the model has none; NULL for a GGUF file, whose keys say it. */
static const char *config_name(const compression_request *request)
{
    const char *name = request->model->config_name;
    if (request->narrowed.pairs != NULL) {
        return NULL;
    }
    return name != NULL && strcmp(name, MODEL_CONFIG_NAME) == 0 ? MODEL_CONFIG_NAME
                                                                : MODEL_GRAIL_NAME;
}

/* A GGUF file that is made from a directory holds what the others say. */
static bool is_copied(const companion_files *c, size_t i)
{
    return c->sources->items[i].is_companion && c->request->narrowed.target == NULL;
}

grail_status companions_declare(const companion_files *c)
{
    grail_status status = GRAIL_OK;
    char *name = NULL;
    const checkpoint *like = c->request->model->checkpoint;
    const char *const documents[] = {plan_name, REPORT_NAME, CARD_NAME, config_name(c->request),
                                     c->request->narrowed.loader_file};
    const weights_format *format = narrowed_format(&c->request->narrowed);
    for (int f = 0; f < checkpoint_written_count(like, format); f++) {
        memory_free(name);
        name = NULL;
        TRY(checkpoint_written_name(like, format, f, &name));
        TRY(output_directory_declare(c->directory, name));
    }
    for (size_t i = 0; i < c->sources->count; i++) {
        if (is_copied(c, i)) {
            TRY(output_directory_declare(c->directory, c->sources->items[i].name));
        }
    }
    for (size_t i = 0; i < sizeof documents / sizeof documents[0]; i++) {
        if (documents[i] != NULL) {
            TRY(output_directory_declare(c->directory, documents[i]));
        }
    }
    if (c->request->samples->hashes.count > 0) {
        TRY(output_directory_declare(c->directory, CALIBRATION_HASHES_NAME));
    }
out:
    memory_free(name);
    return status;
}

grail_status document_write(output_directory *directory, const char *name, const json_t *document)
{
    grail_status status = GRAIL_OK;
    buffer text = {0};
    buffer_init(&text, SIZE_MAX / 4);
    TRY(json_append_indented(document, &text));
    TRY(output_directory_write(directory, name, text.bytes, text.size));
out:
    buffer_fini(&text);
    return status;
}

static grail_status write_index(const companion_files *c)
{
    grail_status status = GRAIL_OK;
    const checkpoint *like = c->request->model->checkpoint;
    json_t *index = NULL;
    if (checkpoint_index_name(like) == NULL || c->request->narrowed.target != NULL) {
        return GRAIL_OK;
    }
    TRY(checkpoint_written_index(like, c->shapes, &index));
    TRY(document_write(c->directory, checkpoint_index_name(like), index));
out:
    json_decref(index);
    return status;
}

static grail_status write_hashes(const companion_files *c)
{
    grail_status status = GRAIL_OK;
    buffer bytes = {0};
    if (c->request->samples->hashes.count == 0) {
        return GRAIL_OK;
    }
    buffer_init(&bytes, SIZE_MAX / 4);
    TRY(hash_set_append(&c->request->samples->hashes, &bytes));
    TRY(output_directory_write(c->directory, CALIBRATION_HASHES_NAME, bytes.bytes, bytes.size));
out:
    buffer_fini(&bytes);
    return status;
}

/* Writes everything that is known before the first block, so that a full disk shows early. */
grail_status companions_write(const companion_files *c)
{
    grail_status status = GRAIL_OK;
    json_t *plan_document = json_object();
    buffer bytes = {0};
    for (size_t i = 0; i < c->sources->count; i++) {
        const source_file *file = &c->sources->items[i];
        if (is_copied(c, i)) {
            buffer_fini(&bytes);
            buffer_init(&bytes, SIZE_MAX / 4);
            TRY(source_file_read(file, &bytes));
            TRY(output_directory_write(c->directory, file->name, bytes.bytes, bytes.size));
        }
    }
    TRY(write_index(c));
    if (c->request->narrowed.loader_file != NULL) {
        const buffer *text = &c->request->narrowed.loader_text;
        TRY(output_directory_write(c->directory, c->request->narrowed.loader_file, text->bytes,
                                   text->size));
    }
    TRY(plan_to_json(&c->request->plan, &c->request->sites->list, plan_document));
    TRY(document_write(c->directory, plan_name, plan_document));
    if (config_name(c->request) != NULL) {
        TRY(document_write(c->directory, config_name(c->request), c->request->narrowed.config));
    }
    TRY(write_hashes(c));
out:
    buffer_fini(&bytes);
    json_decref(plan_document);
    return status;
}
