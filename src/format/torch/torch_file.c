/* Opens torch checkpoints and returns their tensors. The zip format of torch 1.6 and later has one
 * folder with data.pkl and the storages as data/<key>. */
#include "format/torch/torch_file.h"

#include "base/utf8.h"
#include "format/torch/torch_dtypes.h"
#include "format/torch/zip.h"

#include <string.h>

/* The end of messages about files that torch reads, and this does not. */
#define TORCH_REMEDY                                                                               \
    "; save it again in Python, torch.save(torch.load(PATH, \"cpu\", weights_only=True), "         \
    "\"checkpoint.pth\"), or open it with Model.from_torch_file of the Python package"

/* A reference to a storage, from a persistent value. Counts are in elements of its type. */
typedef struct torch_reference {
    pickle_span key;
    const torch_dtype *type;
    int64_t elements;
} torch_reference;

/* The pickle's description of a tensor: element [i0, i1, ...] is element offset + sum i_d stride_d
 * of the storage. */
typedef struct torch_layout {
    torch_reference storage;
    grail_dtype dtype;
    int rank;
    int64_t shape[TENSOR_MAX_RANK];
    int64_t stride[TENSOR_MAX_RANK];
    int64_t offset;
} torch_layout;

/* A tensor that tensor_file_load must gather by its strides. */
typedef struct torch_pending {
    int64_t tensor;
    const unsigned char *first; /* of its bytes */
    torch_layout layout;
} torch_pending;

/* What is kept beside the tensors. */
typedef struct torch_file {
    tensor_file *list; /* that it belongs to */
    zip_reader *zip;
    pickle *object;
    const char *root; /* the name of the folder in the archive, not terminated; borrowed */
    size_t root_length;
    torch_pending *pending;
    int64_t pending_count;
    void **owned; /* copies of strided tensors and of keys */
    int64_t owned_count;
    size_t copied; /* bytes of the copies */
} torch_file;

/* -- descriptions of tensors ---------------------------------------------------------------------
 *
 * They are calls of torch._utils._rebuild_tensor and its successors, with persistent references to
 * storages. Source: torch/_utils.py and torch/serialization.py, 1.13; v3 and _rebuild_from_type_v2:
 * 2.1. */

static grail_status read_count(const pickle_value *value, const char *what, int64_t *out)
{
    if (!pickle_integer(value, out) || *out < 0) {
        return error_set(GRAIL_ERROR_FORMAT, "its %s is not an integer of 0 or more", what);
    }
    return GRAIL_OK;
}

enum { LONGEST_KEY = 256 };

static const char utils[] = "torch._utils";

static bool is_parameter(const pickle_value *value)
{
    return pickle_is_call(value, utils, "_rebuild_parameter") ||
           pickle_is_call(value, utils, "_rebuild_parameter_with_state") ||
           pickle_is_call(value, "torch.nn.parameter", "Parameter");
}

/* Whether the value is described as a tensor, even if it cannot be read. */
static bool torch_is_tensor(const pickle_value *value)
{
    static const char prefix[] = "_rebuild_";
    if (is_parameter(value) || pickle_is_call(value, "torch._tensor", "_rebuild_from_type_v2")) {
        return true;
    }
    if (!pickle_is_call(value, utils, NULL)) {
        return false;
    }
    const pickle_span name = value->call.function->global->name;
    return name.size >= sizeof prefix - 1 && memcmp(name.data, prefix, sizeof prefix - 1) == 0;
}

static grail_status read_lengths(const pickle_value *list, const char *what, int *rank,
                                 int64_t out[TENSOR_MAX_RANK])
{
    const int64_t count = pickle_count(list);
    if (list == NULL || (list->kind != PICKLE_TUPLE && list->kind != PICKLE_LIST)) {
        return error_set(GRAIL_ERROR_FORMAT, "its %s is %s", what, pickle_kind_text(list));
    }
    if (count > TENSOR_MAX_RANK) {
        return error_set(GRAIL_ERROR_UNSUPPORTED, "has %lld dimensions, more than the supported %d",
                         (long long)count, TENSOR_MAX_RANK);
    }
    for (int64_t d = 0; d < count; d++) {
        if (!pickle_integer(pickle_item(list, d), &out[d]) || out[d] < 0) {
            return error_set(GRAIL_ERROR_FORMAT, "%s %lld is negative or not a number", what,
                             (long long)d);
        }
    }
    *rank = (int)count;
    return GRAIL_OK;
}

/* (storage, offset, shape, stride, ...); item 6 of version 3 is the dtype */
static grail_status read_arguments(const pickle_value *arguments, const pickle_value *dtype,
                                   torch_layout *out)
{
    torch_layout layout = {0};
    int strides = 0;
    const pickle_value *storage = pickle_item(arguments, 0);
    if (storage == NULL || storage->kind != PICKLE_PERSISTENT ||
        !pickle_text_is(pickle_item(storage->persistent, 0), "storage")) {
        return error_set(GRAIL_ERROR_FORMAT, "its storage is %s", pickle_kind_text(storage));
    }
    /* ('storage', class, key, location, elements) */
    torch_reference reference = {0};
    const pickle_value *class = pickle_item(storage->persistent, 1);
    reference.type = torch_dtype_of_storage(class);
    if (reference.type == NULL && class != NULL && class->kind == PICKLE_GLOBAL) {
        return error_set(GRAIL_ERROR_UNSUPPORTED, "its storage has the unknown class '%.*s.%.*s'",
                         (int)class->global->module.size, class->global->module.data,
                         (int)class->global->name.size, class->global->name.data);
    }
    if (reference.type == NULL ||
        !pickle_text(pickle_item(storage->persistent, 2), &reference.key)) {
        return error_set(GRAIL_ERROR_FORMAT, "its storage lacks a class or a key");
    }
    if (pickle_count(storage->persistent) != 5) {
        return error_set(GRAIL_ERROR_FORMAT, "its storage is described by %lld values, expected 5",
                         (long long)pickle_count(storage->persistent));
    }
    CHECK(read_count(pickle_item(storage->persistent, 4), "storage's size", &reference.elements));
    layout.storage = reference;
    const torch_dtype *type = dtype == NULL ? layout.storage.type : torch_dtype_of_name(dtype);
    if (type == NULL || type->dtype == GRAIL_DTYPE_COUNT) {
        return error_set(GRAIL_ERROR_UNSUPPORTED, "its dtype (%s) is not supported",
                         type == NULL || type->name == NULL ? "unknown" : type->name);
    }
    layout.dtype = type->dtype;
    CHECK(read_count(pickle_item(arguments, 1), "offset", &layout.offset));
    CHECK(read_lengths(pickle_item(arguments, 2), "dimension", &layout.rank, layout.shape));
    CHECK(read_lengths(pickle_item(arguments, 3), "stride", &strides, layout.stride));
    if (strides != layout.rank) {
        return error_set(GRAIL_ERROR_FORMAT, "has %d dimensions, but %d strides", layout.rank,
                         strides);
    }
    for (int d = 0; d < layout.rank; d++) {
        layout.stride[d] = layout.shape[d] > 1 ? layout.stride[d] : 0; /* never used */
    }
    *out = layout;
    return GRAIL_OK;
}

static grail_status torch_read_layout(const pickle_value *value, torch_layout *out)
{
    while (is_parameter(value)) {
        value = pickle_item(value->call.arguments, 0);
    }
    if (value == NULL || value->kind != PICKLE_CALL) {
        return error_set(GRAIL_ERROR_FORMAT, "is a parameter that wraps %s, expected a tensor",
                         pickle_kind_text(value));
    }
    const pickle_value *function = value->call.function;
    const pickle_value *arguments = value->call.arguments;
    if (pickle_is_global(function, "torch._tensor", "_rebuild_from_type_v2")) {
        function = pickle_item(arguments, 0);
        arguments = pickle_item(arguments, 2);
    }
    if (pickle_is_global(function, utils, "_rebuild_tensor") ||
        pickle_is_global(function, utils, "_rebuild_tensor_v2")) {
        return read_arguments(arguments, NULL, out);
    }
    if (pickle_is_global(function, utils, "_rebuild_tensor_v3")) {
        static const pickle_value none = {.kind = PICKLE_NONE};
        const pickle_value *dtype = pickle_item(arguments, 6);
        return read_arguments(arguments, dtype == NULL ? &none : dtype, out);
    }
    if (function == NULL || function->kind != PICKLE_GLOBAL) {
        return error_set(GRAIL_ERROR_FORMAT, "is made by %s", pickle_kind_text(function));
    }
    return error_set(GRAIL_ERROR_UNSUPPORTED,
                     "is made by '%.*s', which is not supported; save it as a dense tensor",
                     (int)function->global->name.size, function->global->name.data);
}

/* -- views of storages ------------------------------------------------------------------------- */

/* Makes `file` the owner of `block`, even on failure. */
static grail_status torch_own(torch_file *file, void *block)
{
    const grail_status status =
        memory_reserve(&file->owned, (size_t)file->owned_count + 1, sizeof file->owned[0]);
    if (status != GRAIL_OK) {
        memory_free(block);
        return status;
    }
    file->owned[file->owned_count++] = block;
    return GRAIL_OK;
}

/* The member <root>/<folder><name>; NULL where there is none. */
static const zip_member *torch_find_member(const torch_file *file, const char *folder,
                                           pickle_span name)
{
    char path[ZIP_LONGEST_NAME + 1];
    const size_t length = file->root_length + 1 + strlen(folder);
    if (name.size >= sizeof path - length || memchr(name.data, 0, name.size) != NULL) {
        return NULL;
    }
    memcpy(path, file->root, file->root_length + 1);
    memcpy(stpcpy(path + file->root_length + 1, folder), name.data, name.size);
    path[length + name.size] = 0;
    return zip_reader_find(file->zip, path);
}

static grail_status find_storage(const torch_file *file, const torch_reference *reference,
                                 const zip_member **out)
{
    size_t bytes = 0;
    const int key_size = reference->key.size < LONGEST_KEY ? (int)reference->key.size : LONGEST_KEY;
    const zip_member *storage = torch_find_member(file, "data/", reference->key);
    if (storage == NULL || reference->key.size > LONGEST_KEY) {
        return error_set(GRAIL_ERROR_FORMAT, "its storage '%.*s' is missing", key_size,
                         reference->key.data);
    }
    if (!size_multiply((size_t)reference->elements, reference->type->element_size, &bytes) ||
        bytes != storage->size) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "its storage '%.*s' has %zu bytes, expected %lld elements of %zu bytes",
                         key_size, reference->key.data, storage->size,
                         (long long)reference->elements, reference->type->element_size);
    }
    *out = storage;
    return GRAIL_OK;
}

static bool is_contiguous(const torch_layout *layout)
{
    int64_t expected = 1;
    for (int d = layout->rank - 1; d >= 0; d--) {
        if (layout->shape[d] != 1 && layout->stride[d] != expected) {
            return false;
        }
        expected *= layout->shape[d];
    }
    return true;
}

/* out[shape] <- in[sum i_d stride_d], elements of `size` bytes; every dimension is above 0. */
static void gather(const torch_layout *layout, const unsigned char *in, size_t size, int64_t count,
                   unsigned char *out)
{
    int64_t index[TENSOR_MAX_RANK] = {0};
    int64_t at = 0;
    for (int64_t i = 0; i < count; i++) {
        memcpy(out + (size_t)i * size, in + (size_t)at * size, size);
        for (int d = layout->rank - 1; d >= 0; d--) {
            at += layout->stride[d];
            if (++index[d] < layout->shape[d]) {
                break;
            }
            at -= layout->shape[d] * layout->stride[d];
            index[d] = 0;
        }
    }
}

/* Fills dtype, shape, bytes and data of `view`, the tensor of the list that was added last. If the
 * tensor must be copied, data stays NULL until torch_load. */
static grail_status torch_view(torch_file *file, const torch_layout *layout, tensor_view *view)
{
    const zip_member *storage = NULL;
    size_t most = 0;
    const size_t element_size = dtype_bits(layout->dtype) / 8;
    if (!shape_bytes(layout->dtype, layout->rank, layout->shape, &view->bytes)) {
        return error_set(GRAIL_ERROR_FORMAT, "has more elements than any storage can hold");
    }
    CHECK(find_storage(file, &layout->storage, &storage));
    view->dtype = layout->dtype;
    view->rank = layout->rank;
    memcpy(view->shape, layout->shape, sizeof view->shape);
    view->data = file->list->bytes; /* not NULL even without elements */
    if (view->bytes == 0) {
        return GRAIL_OK;
    }
    /* Whether the last element of a tensor, which has elements, lies in its storage of so many. */
    const int64_t available = (int64_t)(storage->size / element_size);
    int64_t last = layout->offset;
    for (int d = 0; d < layout->rank; d++) {
        int64_t distance = 0;
        if (__builtin_mul_overflow(layout->shape[d] - 1, layout->stride[d], &distance) ||
            __builtin_add_overflow(last, distance, &last)) {
            return error_set(GRAIL_ERROR_FORMAT,
                             "its offset and strides reach past the end of any storage");
        }
    }
    if (last >= available) {
        return error_set(
            GRAIL_ERROR_FORMAT,
            "reaches element %lld of its storage '%.*s', which has %lld elements", (long long)last,
            layout->storage.key.size < LONGEST_KEY ? (int)layout->storage.key.size : LONGEST_KEY,
            layout->storage.key.data, (long long)available);
    }
    view->data = file->list->bytes + storage->offset + (size_t)layout->offset * element_size;
    if (is_contiguous(layout)) {
        return GRAIL_OK;
    }
    if (!size_multiply(file->list->size, TORCH_MOST_COPIES, &most) ||
        !size_add(most, TORCH_FREE_COPIES, &most)) {
        most = SIZE_MAX;
    }
    if (view->bytes > most - file->copied) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "is strided, and the contiguous copies of this file's strided tensors "
                         "would take more than %zu bytes; save it with .contiguous()",
                         most);
    }
    file->copied += view->bytes;
    CHECK(memory_reserve(&file->pending, (size_t)file->pending_count + 1, sizeof file->pending[0]));
    file->pending[file->pending_count++] =
        (torch_pending){.tensor = file->list->count - 1, .first = view->data, .layout = *layout};
    view->data = NULL;
    return GRAIL_OK;
}

static grail_status torch_load(tensor_file *list)
{
    torch_file *file = list->parts;
    for (int64_t i = 0; i < file->pending_count; i++) {
        const torch_pending *pending = &file->pending[i];
        tensor_view *view = &list->tensors[pending->tensor];
        const size_t element_size = dtype_bits(view->dtype) / 8;
        unsigned char *copy = NULL;
        CHECK(error_in(memory_new_unset(&copy, view->bytes, 1), "tensor '%s'", view->name));
        CHECK(error_in(torch_own(file, copy), "tensor '%s'", view->name));
        gather(&pending->layout, pending->first, element_size,
               (int64_t)(view->bytes / element_size), copy);
        view->data = copy;
    }
    file->pending_count = 0;
    return GRAIL_OK;
}

/* -- the tensors of a checkpoint --------------------------------------------------------------- */

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

/* Finds the tensors of the object and names them: fills tensors and wrapper of the list, from the
 * items of its dictionary or of one under a usual key. Takes the first, in the order of `wrappers`,
 * of the dictionaries that are as large as a network; without a usual key the only one. What holds
 * a state beside the network's, such as the number of steps of an average, has fewer than half as
 * many tensors as the network. */
static grail_status torch_collect(torch_file *file)
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

/* -- the file ---------------------------------------------------------------------------------- */

/* The number that files of torch before 1.6 begin with, as a pickle. Source:
 * torch/serialization.py, MAGIC_NUMBER. */
static const unsigned char legacy_magic[] = {0x80, 0x02, 0x8a, 0x0a, 0x6c, 0xfc, 0x9c, 0x46,
                                             0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19, 0x2e};

enum { LONGEST_ORDER = 64, TAR_MAGIC = 257 };

static grail_status check_kind(const torch_file *file)
{
    static const char little[] = "little";
    const zip_member *order = torch_find_member(file, "", (pickle_span){"byteorder", 9});
    if (torch_find_member(file, "", (pickle_span){"constants.pkl", 13}) != NULL) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "is a TorchScript archive, which is not read; save its weights in Python, "
                         "torch.save(torch.jit.load(PATH, \"cpu\").state_dict(), \"weights.pth\"), "
                         "or open it with Model.from_torch_file of the Python package");
    }
    for (int64_t i = 0; i < file->zip->count; i++) {
        if (file->zip->members[i].is_compressed) {
            return error_set(GRAIL_ERROR_UNSUPPORTED,
                             "member '%s' is compressed, and compressed members are not "
                             "read" TORCH_REMEDY,
                             file->zip->members[i].name);
        }
    }
    if (order == NULL ||
        (order->size <= LONGEST_ORDER && order->size >= sizeof little - 1 &&
         memcmp(file->list->bytes + order->offset, little, sizeof little - 1) == 0)) {
        return GRAIL_OK;
    }
    return error_set(GRAIL_ERROR_UNSUPPORTED,
                     "is not little-endian; load and save it with torch on this machine");
}

static grail_status read_file(torch_file *file)
{
    const zip_member *object = NULL;
    const unsigned char *bytes = file->list->bytes;
    const size_t size = file->list->size;
    if (size < 4 || memcmp(bytes, "PK\x03\x04", 4) != 0) {
        if (size >= sizeof legacy_magic && memcmp(bytes, legacy_magic, sizeof legacy_magic) == 0) {
            return error_set(
                GRAIL_ERROR_UNSUPPORTED,
                "is in the format of torch before 1.6, which is not read" TORCH_REMEDY);
        }
        /* before that format torch wrote tar archives */
        if (size > TAR_MAGIC + 5 && memcmp(bytes + TAR_MAGIC, "ustar", 5) == 0) {
            return error_set(
                GRAIL_ERROR_UNSUPPORTED,
                "is a tar archive, the format of torch before 0.1.10; load it and save "
                "it again with a newer torch");
        }
        return error_set(GRAIL_ERROR_FORMAT, "is not a torch checkpoint");
    }
    CHECK(zip_reader_open(bytes, size, &file->zip));
    /* Finds the member <root>/data.pkl, where <root> is the name of one folder. */
    const zip_member *found = NULL;
    for (int64_t i = 0; i < file->zip->count; i++) {
        const zip_member *member = &file->zip->members[i];
        const char *slash = strchr(member->name, '/');
        if (slash == NULL || slash == member->name || strcmp(slash, "/data.pkl") != 0) {
            continue;
        }
        if (found != NULL) {
            return error_set(GRAIL_ERROR_FORMAT, "holds both '%s' and '%s'", found->name,
                             member->name);
        }
        found = member;
        file->root = member->name;
        file->root_length = (size_t)(slash - member->name);
    }
    if (found == NULL) {
        return error_set(
            GRAIL_ERROR_FORMAT,
            "is a zip archive without a data.pkl in a folder, so it is not a torch checkpoint");
    }
    object = found;
    CHECK(check_kind(file));
    if (object->size > TORCH_LARGEST_PICKLE) {
        return error_set(GRAIL_ERROR_FORMAT, "member '%s' has %zu bytes, more than the allowed %d",
                         object->name, object->size, TORCH_LARGEST_PICKLE);
    }
    CHECK(error_in(pickle_read(bytes + object->offset, object->size, &file->object), "%s",
                   object->name));
    return torch_collect(file);
}

static void free_parts(void *parts)
{
    torch_file *file = parts;
    for (int64_t i = 0; i < file->owned_count; i++) {
        memory_free(file->owned[i]);
    }
    memory_free(file->owned);
    memory_free(file->pending);
    pickle_close(file->object);
    zip_reader_close(file->zip);
    memory_free(file);
}

static grail_status read_tensors(tensor_file *list)
{
    torch_file *file = NULL;
    CHECK(memory_new(&file, 1, sizeof *file));
    file->list = list;
    list->parts = file;
    list->free_parts = free_parts;
    list->load = torch_load;
    return read_file(file);
}

grail_status torch_file_open_bytes(const char *name, const void *bytes, size_t size,
                                   tensor_file **out)
{
    return tensor_file_open_bytes(name, bytes, size, read_tensors, out);
}

grail_status torch_file_open(const char *path, tensor_file **out)
{
    return tensor_file_open(path, read_tensors, out);
}
