/* Finds the tensors of a checkpoint and their names: the items of its dictionary, or of a
 * dictionary under a usual key. */
#include "format/torch/torch_internal.h"

#include "base/utf8.h"

#include <string.h>

enum { MOST_KEYS_SHOWN = 6 };

/* Keys, in the order in which they are tried: those of timm's loader (timm/models/_helpers.py), of
 * PyTorch's tutorials, of DeepSpeed and of kuangliu's CIFAR-10 collection. */
static const char *const wrappers[] = {
    "state_dict_ema",   "model_ema", "ema",    "state_dict", "model",
    "model_state_dict", "net",       "module", "last"};

enum { WRAPPER_COUNT = sizeof wrappers / sizeof wrappers[0] };

static grail_status read_tensor(torch_file *file, const pickle_value *value, tensor_view *view)
{
    torch_layout layout = {0};
    CHECK(torch_read_layout(value, &layout));
    return torch_view(file, &layout, view);
}

static bool is_text(pickle_span text)
{
    return memchr(text.data, 0, text.size) == NULL &&
           utf8_valid_prefix(text.data, text.size) == text.size;
}

static grail_status collect_dict(torch_file *file, const pickle_value *dict)
{
    char name[TENSOR_LONGEST_NAME + 1];
    for (int64_t i = 0; i < pickle_count(dict); i++) {
        pickle_span key = {0};
        tensor_view *view = NULL;
        const pickle_value *value = pickle_item(dict, i);
        if (!torch_is_tensor(value) || !pickle_text(pickle_key(dict, i), &key)) {
            continue;
        }
        if (key.size > TENSOR_LONGEST_NAME) {
            return error_set(GRAIL_ERROR_FORMAT, "the name of a tensor has more than %d bytes",
                             TENSOR_LONGEST_NAME);
        }
        if (!is_text(key)) {
            return error_set(GRAIL_ERROR_FORMAT, "the name of a tensor is not UTF-8 text");
        }
        memcpy(name, key.data, key.size);
        name[key.size] = 0;
        CHECK(tensor_file_add(file->list, name, &view));
        CHECK(error_in(read_tensor(file, value, view), "tensor '%s'", name));
    }
    return GRAIL_OK;
}

static grail_status refuse_object(const char *where, const pickle_value *value)
{
    const pickle_value *class = value->kind == PICKLE_CALL ? value->call.function : NULL;
    if (class == NULL || class->kind != PICKLE_GLOBAL) {
        return error_set(GRAIL_ERROR_FORMAT, "%s is %s, not a dictionary of tensors", where,
                         pickle_kind_text(value));
    }
    const pickle_name *name = class->global;
    return error_set(GRAIL_ERROR_UNSUPPORTED,
                     "%s is an object of the class '%.*s.%.*s', not a dictionary of tensors; save "
                     "its state_dict() instead",
                     where, (int)name->module.size, name->module.data, (int)name->name.size,
                     name->name.data);
}

static grail_status refuse_dict(const pickle_value *root)
{
    for (size_t w = 0; w < WRAPPER_COUNT; w++) {
        const pickle_value *value = pickle_find(root, wrappers[w]);
        if (value != NULL && value->kind == PICKLE_CALL) {
            char where[32];
            stpcpy(stpcpy(stpcpy(where, "its '"), wrappers[w]), "'");
            return refuse_object(where, value);
        }
    }
    const grail_status status =
        error_set(GRAIL_ERROR_FORMAT,
                  "holds no tensors, neither directly nor under a key such as state_dict");
    for (int64_t i = 0; i < pickle_count(root) && i < MOST_KEYS_SHOWN; i++) {
        pickle_span key = {0};
        if (pickle_text(pickle_key(root, i), &key) && key.size < 64 &&
            utf8_valid_prefix(key.data, key.size) == key.size) {
            error_append("%s'%.*s'", i == 0 ? "; its keys are " : ", ", (int)key.size, key.data);
        }
    }
    error_append("; save the state_dict() alone");
    return status;
}

/* A dictionary of tensors in a checkpoint: the checkpoint itself, or the value of one of its keys.
 */
typedef struct holder {
    const pickle_value *dict;
    pickle_span key; /* empty: the checkpoint itself */
    int64_t count;   /* of tensors */
    size_t rank;     /* place of the key among `wrappers`, then RANK_ITSELF and RANK_OTHER */
} holder;

enum { RANK_ITSELF = WRAPPER_COUNT, RANK_OTHER };

/* Holder i: those of the keys, then the checkpoint itself. */
static holder holder_at(const pickle_value *root, int64_t i)
{
    holder h = {.dict = root, .rank = RANK_ITSELF};
    if (i < pickle_count(root)) {
        h.dict = pickle_item(root, i);
        if (!pickle_text(pickle_key(root, i), &h.key) || h.key.size == 0) {
            return (holder){.rank = RANK_OTHER};
        }
        for (h.rank = 0; h.rank < WRAPPER_COUNT && !pickle_span_is(h.key, wrappers[h.rank]);) {
            h.rank++;
        }
        h.rank = h.rank < WRAPPER_COUNT ? h.rank : RANK_OTHER;
    }
    for (int64_t k = 0; h.dict != NULL && h.dict->kind == PICKLE_DICT && k < pickle_count(h.dict);
         k++) {
        h.count += torch_is_tensor(pickle_item(h.dict, k)) ? 1 : 0;
    }
    return h;
}

static grail_status copy_key(torch_file *file, pickle_span key, const char **out)
{
    char *text = NULL;
    if (key.size > TENSOR_LONGEST_NAME || !is_text(key)) {
        return error_set(GRAIL_ERROR_FORMAT, "the key of its tensors is no readable text");
    }
    CHECK(memory_format(&text, "%.*s", (int)key.size, key.data));
    CHECK(torch_own(file, text));
    *out = text;
    return GRAIL_OK;
}

/* Takes the first, in the order of `wrappers`, of the dictionaries that are as large as a network;
 * without a usual key the only one. What holds a state beside the network's, such as the number of
 * steps of an average, has fewer than half as many tensors as the network. */
grail_status torch_collect(torch_file *file)
{
    const pickle_value *root = pickle_root(file->object);
    int64_t most = 0;
    int64_t visits = 0;
    holder best = {0};
    holder rival = {0};
    if (root->kind != PICKLE_DICT) {
        return refuse_object("its object", root);
    }
    for (int64_t i = 0; i <= pickle_count(root); i++) {
        const holder h = holder_at(root, i);
        visits += h.dict == NULL ? 0 : pickle_count(h.dict);
        if (visits > TORCH_MOST_VISITS) { /* dictionaries may be shared */
            return error_set(GRAIL_ERROR_FORMAT, "holds dictionaries with more than %d values",
                             TORCH_MOST_VISITS);
        }
        most = h.count > most ? h.count : most;
    }
    for (int64_t i = 0; i <= pickle_count(root); i++) {
        const holder h = holder_at(root, i);
        const bool is_better = best.count == 0 || h.rank < best.rank;
        if (h.count > 0 && 2 * h.count >= most) {
            rival = is_better ? best : h;
            best = is_better ? h : best;
        }
    }
    if (best.count == 0) {
        return refuse_dict(root);
    }
    if (rival.count > 0 && best.rank == RANK_OTHER) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "holds several dictionaries of tensors, '%.*s' and '%.*s' among them, and "
                         "grail narrows "
                         "one network; save the one that is wanted by itself",
                         (int)best.key.size, best.key.data, (int)rival.key.size, rival.key.data);
    }
    if (best.key.size > 0) {
        CHECK(copy_key(file, best.key, &file->list->wrapper));
    }
    if (rival.key.size > 0) {
        CHECK(copy_key(file, rival.key, &file->list->rival));
    }
    return collect_dict(file, best.dict);
}
