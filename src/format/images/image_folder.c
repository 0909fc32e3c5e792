#include "format/images/image_folder.h"

#include "base/file.h"
#include "base/name_list.h"
#include "format/images/image.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* torchvision's ImageFolder also takes the formats behind the first three. They are refused, since
 * skipping them would change the data set. */
static grail_status is_image(const char *path, bool *out)
{
    static const char *const endings[] = {".jpg", ".jpeg", ".png",  ".ppm", ".bmp",
                                          ".pgm", ".tif",  ".tiff", ".webp"};
    enum { ENDINGS = sizeof endings / sizeof endings[0], READ = 3 };
    int i = 0;
    while (i < ENDINGS && !name_is_of_kind(path, endings[i])) {
        i++;
    }
    *out = i < READ;
    return i < READ || i == ENDINGS
               ? GRAIL_OK
               : error_set(GRAIL_ERROR_UNSUPPORTED,
                           "%s: only JPEG and PNG files can be read; convert it", path);
}

/* Adds a file of the folder by its relative path, which is taken over, and leaves NULL, where it is
 * an image. */
static grail_status add_file(image_folder *folder, char **relative, int64_t label, bool *is_folder)
{
    grail_status status = GRAIL_OK;
    char *path = NULL;
    bool wanted = false;
    struct stat info;
    TRY(path_join(&path, folder->path, *relative));
    TRY(stat(path, &info) == 0 ? GRAIL_OK : error_from_errno("cannot inspect", path));
    *is_folder = S_ISDIR(info.st_mode);
    TRY(*is_folder ? GRAIL_OK : is_image(path, &wanted));
    if (wanted) {
        TRY(memory_reserve(&folder->files, (size_t)folder->count + 1, sizeof folder->files[0]));
        folder->files[folder->count++] =
            (image_file){.name = *relative, .size = (int64_t)info.st_size, .label = label};
        *relative = NULL;
    }
out:
    memory_free(path);
    return status;
}

static grail_status add_class(image_folder *folder, const char *name)
{
    grail_status status = GRAIL_OK;
    name_list list = {0};
    char *path = NULL;
    char *relative = NULL;
    const int64_t before = folder->count;
    TRY(path_join(&path, folder->path, name));
    TRY(name_list_read(path, NULL, &list));
    for (size_t i = 0; i < list.count; i++) {
        bool is_folder = false;
        memory_free(relative);
        relative = NULL;
        TRY(path_join(&relative, name, list.names[i]));
        TRY(add_file(folder, &relative, folder->classes, &is_folder));
        if (is_folder) {
            FAIL(
                GRAIL_ERROR_FORMAT,
                "%s/%s: is a folder inside a class folder; the images of a class must be directly "
                "in its folder (if the data set has splits, give the folder of one split: '%s/%s')",
                path, list.names[i], folder->path, name);
        }
    }
    if (folder->count == before) {
        FAIL(GRAIL_ERROR_FORMAT, "%s: this class holds no images", path);
    }
    folder->classes++;
out:
    memory_free(relative);
    memory_free(path);
    name_list_fini(&list);
    return status;
}

/* SHA-256 over the lines "name size label". */
static grail_status hash_files(image_folder *folder)
{
    grail_status status = GRAIL_OK;
    buffer text = {0};
    buffer_init(&text, SIZE_MAX / 2);
    for (int64_t i = 0; i < folder->count; i++) {
        const image_file *file = &folder->files[i];
        TRY(buffer_format(&text, "%s %lld %lld\n", file->name, (long long)file->size,
                          (long long)file->label));
    }
    hash_bytes(text.bytes, text.size, folder->hash);
out:
    buffer_fini(&text);
    return status;
}

/* "10" is before "2" as text; whoever numbers classes may mean the other order. */
static void note_numbers(image_folder *folder)
{
    enum { MOST_DIGITS = 18 };
    int64_t highest = -1;
    const char *after = NULL; /* the folder of the highest number so far */
    const char *early = NULL; /* one that a higher number precedes */
    for (int64_t i = 0; folder->classes > 0 && i < folder->count; i++) {
        const char *name = folder->files[i].name;
        const size_t length = strspn(name, "0123456789");
        if (length < 1 || length > MOST_DIGITS || name[length] != '/') {
            return;
        }
        const int64_t number = strtoll(name, NULL, 10);
        early = number < highest && early == NULL ? name : early;
        after = early == NULL ? name : after;
        highest = number > highest ? number : highest;
    }
    if (early != NULL) {
        snprintf(folder->class_notice, sizeof folder->class_notice,
                 "the names of the class folders are numbers, and are sorted as text, as in "
                 "torchvision: '%.*s' stands before '%.*s'; if the network's classes have the "
                 "order of the numbers, name the folders with leading zeros",
                 (int)strcspn(after, "/"), after, (int)strcspn(early, "/"), early);
    }
}

/* -- the class of each file, from a CSV -------------------------------------------------------- */

enum { LARGEST_CLASS = 999999 };

/* A line split at its last comma, since names may hold commas. Both parts are without surrounding
 * spaces and quotes. */
typedef struct label_line {
    int64_t number;
    char *file;
    char *label; /* NULL when there is no comma */
} label_line;

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static char *trim(char *text)
{
    while (is_blank(*text)) {
        text++;
    }
    size_t length = strlen(text);
    while (length > 0 && is_blank(text[length - 1])) {
        length--;
    }
    if (length >= 2 && text[0] == '"' && text[length - 1] == '"') {
        text++;
        length -= 2;
    }
    text[length] = 0;
    return text;
}

static int compare_file(const void *name, const void *file)
{
    return strcmp(name, ((const image_file *)file)->name);
}

static grail_status apply_line(const label_line *line, image_folder *folder)
{
    const char *end = line->label;
    int64_t label = 0;
    image_file *file = bsearch(line->file, folder->files, (size_t)folder->count,
                               sizeof folder->files[0], compare_file);
    if (line->label == NULL) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "line %lld has no comma, expected \"file,class index\"",
                         (long long)line->number);
    }
    for (; *end >= '0' && *end <= '9' && label <= LARGEST_CLASS; end++) {
        label = label * 10 + (*end - '0');
    }
    const bool valid = end > line->label && *end == 0 && label <= LARGEST_CLASS;
    if (line->number == 1 && file == NULL && !valid) {
        return GRAIL_OK; /* the header line */
    }
    if (file == NULL) {
        return error_set(GRAIL_ERROR_FORMAT, "line %lld names '%s', which is not in '%s'",
                         (long long)line->number, line->file, folder->path);
    }
    if (!valid) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "line %lld has class '%s', expected an integer from 0 to %d",
                         (long long)line->number, line->label, LARGEST_CLASS);
    }
    if (file->label >= 0) {
        return error_set(GRAIL_ERROR_FORMAT, "line %lld names '%s' a second time",
                         (long long)line->number, line->file);
    }
    file->label = label;
    folder->classes = label >= folder->classes ? label + 1 : folder->classes;
    return GRAIL_OK;
}

static grail_status read_labels(const char *path, image_folder *folder)
{
    static const char byte_order_mark[] = "\xef\xbb\xbf";
    grail_status status = GRAIL_OK;
    buffer text = {0};
    label_line line = {0};
    TRY(file_read(path, IMAGE_LARGEST_LABELS, &text));
    TRY(buffer_append(&text, "", 1));
    char *rest = (char *)text.bytes;
    if (strlen(rest) + 1 != text.size) {
        FAIL(GRAIL_ERROR_FORMAT, "%s: holds a zero byte, so it is not a CSV file", path);
    }
    rest += strncmp(rest, byte_order_mark, 3) == 0 ? 3 : 0;
    while (rest != NULL) {
        char *start = strsep(&rest, "\n");
        char *comma = strrchr(start, ',');
        line.number++;
        line.label = NULL;
        if (comma != NULL) {
            *comma = 0;
            line.label = trim(comma + 1);
        }
        line.file = trim(start);
        if (*line.file != 0 || line.label != NULL) {
            TRY(error_in(apply_line(&line, folder), "%s", path));
        }
    }
    for (int64_t i = 0; i < folder->count; i++) {
        if (folder->files[i].label < 0) {
            FAIL(GRAIL_ERROR_FORMAT, "%s: has no line for '%s'", path, folder->files[i].name);
        }
    }
out:
    buffer_fini(&text);
    return status;
}

/* -- opening ----------------------------------------------------------------------------------- */

grail_status image_folder_open(const char *path, const char *labels, image_folder *out)
{
    grail_status status = GRAIL_OK;
    image_folder folder = {0};
    name_list list = {0};
    char *name = NULL;
    TRY(memory_copy_string(&folder.path, path));
    TRY(name_list_read(path, NULL, &list));
    for (size_t i = 0; i < list.count; i++) {
        bool is_folder = false;
        memory_free(name);
        name = NULL;
        TRY(memory_copy_string(&name, list.names[i]));
        TRY(add_file(&folder, &name, -1, &is_folder));
        TRY(is_folder ? add_class(&folder, name) : GRAIL_OK);
    }
    if (folder.count == 0) {
        FAIL(GRAIL_ERROR_IO, "'%s' holds neither JPEG or PNG files nor CIFAR-10 batches", path);
    }
    for (int64_t i = 0; folder.classes > 0 && i < folder.count; i++) {
        if (folder.files[i].label < 0) {
            FAIL(GRAIL_ERROR_FORMAT,
                 "'%s' holds class folders, but also the image '%s' outside them; move it into the "
                 "folder of its class",
                 path, folder.files[i].name);
        }
    }
    if (folder.classes > 0 && labels != NULL) {
        FAIL(GRAIL_ERROR_ARGUMENT,
             "the folders in '%s' already name the classes; leave out the labels file '%s'", path,
             labels);
    }
    if (labels != NULL) {
        TRY(read_labels(labels, &folder));
    } else {
        note_numbers(&folder);
    }
    TRY(hash_files(&folder));
    *out = folder;
    folder = (image_folder){0};
out:
    memory_free(name);
    name_list_fini(&list);
    image_folder_close(&folder);
    return status;
}

/* Index of the class that the folder of `file` is named after; -1 for none, and for several. */
static int64_t class_of_folder(const char *file, const char *const *names, int64_t count)
{
    const size_t length = strcspn(file, "/");
    int64_t found = -1;
    for (int64_t i = 0; i < count; i++) {
        if (names[i] != NULL && strncmp(names[i], file, length) == 0 && names[i][length] == 0) {
            if (found >= 0) {
                return -1;
            }
            found = i;
        }
    }
    return found;
}

/* How much of the folder's name in a path a notice shows. */
static int shown_length(const char *path)
{
    enum { MOST_SHOWN = 40 };
    const size_t length = strcspn(path, "/");
    return length < MOST_SHOWN ? (int)length : MOST_SHOWN;
}

grail_status image_folder_name_classes(image_folder *folder, const char *const *names,
                                       int64_t count)
{
    grail_status status = GRAIL_OK;
    int64_t *classes = NULL; /* [folder->classes] */
    const char *known = NULL;
    const char *stranger = NULL;
    if (folder->count == 0 || strchr(folder->files[0].name, '/') == NULL) {
        return GRAIL_OK;
    }
    TRY(memory_new(&classes, (size_t)folder->classes, sizeof classes[0]));
    for (int64_t i = 0; i < folder->count; i++) {
        const image_file *file = &folder->files[i];
        if (i == 0 || file->label != file[-1].label) {
            classes[file->label] = class_of_folder(file->name, names, count);
            *(classes[file->label] < 0 ? &stranger : &known) = file->name;
        }
    }
    if (stranger != NULL) {
        if (known != NULL) {
            snprintf(folder->class_notice, sizeof folder->class_notice,
                     "the class folder '%.*s' has the name of one of the network's classes, and "
                     "'%.*s' of none or of several; so all are numbered in the order of their "
                     "names; rename them",
                     shown_length(known), known, shown_length(stranger), stranger);
        }
        goto out;
    }
    folder->class_notice[0] = 0;
    for (int64_t i = 0; i < folder->count; i++) {
        folder->files[i].label = classes[folder->files[i].label];
    }
    folder->classes = count;
    TRY(hash_files(folder));
out:
    memory_free(classes);
    return status;
}

void image_folder_close(image_folder *folder)
{
    for (int64_t i = 0; i < folder->count; i++) {
        memory_free(folder->files[i].name);
    }
    memory_free(folder->files);
    memory_free(folder->path);
    *folder = (image_folder){0};
}
