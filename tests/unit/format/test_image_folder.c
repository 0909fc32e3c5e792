/* Folders of images: order, classes from subfolders, labels from a CSV, and what is refused. */
#include "support/support.h"

#include "base/file.h"
#include "format/images/image_folder.h"
#include "format/images/image_set.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A JPEG of 32 x 32. */
static buffer square(void)
{
    char path[4096];
    buffer bytes = {0};
    snprintf(path, sizeof path, "%s/tests/golden/images/rgb-square.jpg", GRAIL_SOURCE_DIR);
    assert_ok(file_read(path, 1 << 20, &bytes));
    return bytes;
}

static void put(const char *directory, const char *name)
{
    OWNED(buffer) bytes = square();
    support_write_file(directory, name, bytes.bytes, bytes.size);
}

static void put_text(const char *directory, const char *name, const char *text)
{
    support_write_file(directory, name, text, strlen(text));
}

static void make_subfolder(const char *directory, const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    assert_int_equal(mkdir(path, 0777), 0);
}

/* Two classes of two and one images, with files that are passed over. */
static char *make_classes(void)
{
    char *directory = support_temporary_directory();
    make_subfolder(directory, "zebra");
    make_subfolder(directory, "Ant");
    make_subfolder(directory, ".cache");
    put(directory, "zebra/b.jpg");
    put(directory, "zebra/B.JPEG");
    put(directory, "Ant/x.png"); /* a JPEG by its bytes */
    put_text(directory, "Ant/notes.txt", "x");
    put_text(directory, "Ant/.hidden.jpg", "x");
    put_text(directory, "README", "x");
    return directory;
}

static char *make_flat(void)
{
    char *directory = support_temporary_directory();
    put(directory, "b.jpg");
    put(directory, "a.jpg");
    put(directory, "c,d.jpg");
    return directory;
}

static void discard(char *directory)
{
    support_remove_tree(directory);
    memory_free(directory);
}

static void expect_file(const image_folder *folder, int64_t i, const char *name, int64_t label)
{
    assert_string_equal(folder->files[i].name, name);
    assert_int_equal(folder->files[i].label, label);
}

TEST(test_subfolders_are_classes_in_the_order_of_their_names)
{
    OWNED(temporary) directory = make_classes();
    OWNED(image_folder) folder = {0};
    assert_ok(image_folder_open(directory, NULL, &folder));
    assert_int_equal(folder.classes, 2);
    assert_int_equal(folder.count, 3);
    expect_file(&folder, 0, "Ant/x.png", 0);
    expect_file(&folder, 1, "zebra/B.JPEG", 1);
    expect_file(&folder, 2, "zebra/b.jpg", 1);
}

/* Opens a folder with a class for each of three names, and compares its notice. */
static void expect_notice(const char *const classes[3], const char *const known[3],
                          const char *notice)
{
    OWNED(temporary) directory = support_temporary_directory();
    OWNED(image_folder) folder = {0};
    for (int i = 0; i < 3; i++) {
        char file[64];
        snprintf(file, sizeof file, "%s/a.jpg", classes[i]);
        make_subfolder(directory, classes[i]);
        put(directory, file);
    }
    assert_ok(image_folder_open(directory, NULL, &folder));
    assert_ok(image_folder_name_classes(&folder, known, 3));
    if (notice == NULL) {
        assert_string_equal(folder.class_notice, "");
    } else {
        assert_non_null(strstr(folder.class_notice, notice));
    }
}

TEST(test_an_order_that_may_be_another_is_noticed)
{
    static const char *const no_names[3] = {NULL, NULL, NULL};
    static const char *const numbers[3] = {"1", "2", "10"};
    expect_notice(numbers, no_names, "'10' stands before '2'");
    expect_notice((const char *const[3]){"01", "02", "10"}, no_names, NULL);
    expect_notice((const char *const[3]){"0", "1", "2"}, no_names, NULL);
    expect_notice((const char *const[3]){"1", "10", "2x"}, no_names, NULL);
    expect_notice((const char *const[3]){"n01440764", "n01443537", "n01484850"}, no_names, NULL);
    expect_notice(numbers, numbers, NULL);
    expect_notice((const char *const[3]){"cat", "dog", "hen"},
                  (const char *const[3]){"hen", "dog", "LABEL_2"},
                  "'hen' has the name of one of the network's classes, and 'cat' of none");
}

TEST(test_a_flat_folder_has_no_labels)
{
    OWNED(temporary) directory = make_flat();
    OWNED(image_folder) folder = {0};
    assert_ok(image_folder_open(directory, NULL, &folder));
    assert_int_equal(folder.classes, 0);
    expect_file(&folder, 0, "a.jpg", -1);
    expect_file(&folder, 1, "b.jpg", -1);
    expect_file(&folder, 2, "c,d.jpg", -1);
}

static void refuse(const char *directory, const char *labels, grail_status code, const char *text)
{
    image_folder folder = {0};
    assert_fails(image_folder_open(directory, labels, &folder), code, text);
    assert_null(folder.files);
}

TEST(test_folders_that_are_neither_are_refused)
{
    char *directory = make_classes();
    refuse(directory, "labels.csv", GRAIL_ERROR_ARGUMENT,
           "already name the classes; leave out the labels file");
    put(directory, "loose.jpg");
    refuse(directory, NULL, GRAIL_ERROR_FORMAT,
           "holds class folders, but also the image 'loose.jpg' outside them; move it into the "
           "folder of its class");
    discard(directory);
    directory = make_classes();
    make_subfolder(directory, "empty");
    refuse(directory, NULL, GRAIL_ERROR_FORMAT, "empty: this class holds no images");
    discard(directory);
    directory = make_classes();
    make_subfolder(directory, "zebra/more");
    refuse(directory, NULL, GRAIL_ERROR_FORMAT,
           "zebra/more: is a folder inside a class folder; the images of a class must be directly "
           "in its folder (if the data set has splits, give the folder of one split:");
    discard(directory);
    directory = make_classes();
    put(directory, "zebra/c.WebP");
    refuse(directory, NULL, GRAIL_ERROR_UNSUPPORTED,
           "zebra/c.WebP: only JPEG and PNG files can be read; convert it");
    discard(directory);
    directory = support_temporary_directory();
    refuse(directory, NULL, GRAIL_ERROR_IO, "holds neither JPEG or PNG files nor CIFAR-10 batches");
    discard(directory);
    refuse("/nowhere/at/all", NULL, GRAIL_ERROR_IO, "cannot list '/nowhere/at/all'");
}

/* Labels of a.jpg, b.jpg and "c,d.jpg". */
static void expect_labels(const char *csv, int64_t a, int64_t b, int64_t c)
{
    OWNED(temporary) directory = make_flat();
    char path[4096];
    OWNED(image_folder) folder = {0};
    put_text(directory, "labels.csv", csv);
    snprintf(path, sizeof path, "%s/labels.csv", directory);
    assert_ok(image_folder_open(directory, path, &folder));
    assert_int_equal(folder.classes, 10);
    assert_int_equal(folder.files[0].label, a);
    assert_int_equal(folder.files[1].label, b);
    assert_int_equal(folder.files[2].label, c);
}

TEST(test_a_csv_gives_the_labels)
{
    expect_labels("b.jpg,9\na.jpg,0\nc,d.jpg,4\n", 0, 9, 4);
    expect_labels("file,class index\r\nb.jpg, 9\r\n\r\n a.jpg ,000\r\n\"c,d.jpg\",\"4\"", 0, 9, 4);
    expect_labels("\xef\xbb\xbf"
                  "b.jpg,9\na.jpg,0\nc,d.jpg,4\n",
                  0, 9, 4);
}

static void refuse_labels(const char *csv, size_t size, const char *text)
{
    OWNED(temporary) directory = make_flat();
    char path[4096];
    support_write_file(directory, "labels.csv", csv, size);
    snprintf(path, sizeof path, "%s/labels.csv", directory);
    refuse(directory, path, GRAIL_ERROR_FORMAT, text);
}

TEST(test_wrong_labels_are_refused_by_line)
{
    static const struct {
        const char *csv;
        const char *text;
    } cases[] = {
        {"a.jpg,1\nx.jpg,2\n", "labels.csv: line 2 names 'x.jpg', which"},
        {"a.jpg,1\nb.jpg\n", "line 2 has no comma, expected \"file,class index\""},
        {"a.jpg,-1\n", "line 1 has class '-1', expected an integer from 0 to 999999"},
        {"a.jpg,1\nb.jpg,1000000\n", "line 2 has class '1000000'"},
        {"a.jpg,99999999999999999999999\n", "line 1 has class"},
        {"a.jpg,1.5\n", "line 1 has class '1.5'"},
        {"a.jpg,\n", "line 1 has class ''"},
        {"a.jpg,1\na.jpg,1\n", "line 2 names 'a.jpg' a second time"},
        {"a.jpg,1\nb.jpg,1\n", "labels.csv: has no line for 'c,d.jpg'"},
        {"name,class\nname,class\n", "line 2 names 'name', which"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        refuse_labels(cases[i].csv, strlen(cases[i].csv), cases[i].text);
    }
    refuse_labels("", 0, "has no line for 'a.jpg'");
    refuse_labels("a.jpg\0,1\n", 9, "holds a zero byte");
}

static image_set *open_set(const char *path, const char *preset)
{
    const grail_image_source source = {.path = path, .preset = preset};
    image_set *set = NULL;
    assert_ok(image_set_open(&source, &set));
    return set;
}

TEST(test_a_set_of_a_folder_says_what_it_holds)
{
    OWNED(temporary) directory = make_classes();
    OWNED(grail_images) *set = open_set(directory, NULL);
    assert_string_equal(image_set_preset(set), "imagenet");
    assert_int_equal(image_set_rule(set)->height, 224);
    assert_int_equal(image_set_count(set), 3);
    assert_int_equal(image_set_classes(set), 2);
    assert_int_equal(image_set_label(set, 1), 1);
    assert_non_null(strstr(image_set_name(set, 1), "/zebra/B.JPEG"));
}

/* Labels of the three images of make_classes() under these class names. */
static void holds_labels(const char *const *names, int64_t count, int64_t ant, int64_t zebra)
{
    OWNED(temporary) directory = make_classes();
    OWNED(grail_images) *plain = open_set(directory, NULL);
    OWNED(grail_images) *set = open_set(directory, NULL);
    assert_ok(image_set_name_classes(set, names, count));
    assert_int_equal(image_set_label(set, 0), ant);
    assert_int_equal(image_set_label(set, 1), zebra);
    assert_int_equal(image_set_label(set, 2), zebra);
    assert_int_equal(image_set_classes(set), ant == 0 && zebra == 1 ? 2 : count);
    assert_int_equal(strcmp(image_set_hash(set), image_set_hash(plain)) == 0,
                     ant == 0 && zebra == 1);
}

TEST(test_folders_named_after_classes_have_their_indices)
{
    static const char *const turned[] = {"zebra", NULL, "Ant", "Anteater"};
    static const char *const some[] = {"zebra", NULL, "ant", "An"};
    static const char *const twice[] = {"zebra", "Ant", "zebra"};
    holds_labels(turned, 4, 2, 0);
    holds_labels(some, 4, 0, 1);
    holds_labels(twice, 3, 0, 1);
    holds_labels(NULL, 0, 0, 1);
}

TEST(test_class_names_leave_the_labels_of_a_csv)
{
    static const char *const names[] = {"b.jpg", "a.jpg"};
    OWNED(temporary) directory = make_flat();
    char csv[4200];
    put_text(directory, "labels.csv", "a.jpg,0\nb.jpg,7\nc,d.jpg,1\n");
    snprintf(csv, sizeof csv, "%s/labels.csv", directory);
    const grail_image_source source = {.path = directory, .labels = csv};
    OPENED(grail_images, set, image_set_open(&source, &set));
    assert_ok(image_set_name_classes(set, names, 2));
    assert_int_equal(image_set_label(set, 0), 0);
    assert_int_equal(image_set_label(set, 1), 7);
}

TEST(test_the_hash_follows_names_sizes_and_labels)
{
    OWNED(temporary) directory = make_classes();
    OWNED(grail_images) *first = open_set(directory, "cifar");
    OWNED(grail_images) *same = open_set(directory, "clip");
    put_text(directory, "Ant/x.png", "shorter");
    OWNED(grail_images) *other = open_set(directory, "cifar");
    assert_string_equal(image_set_hash(first), image_set_hash(same));
    assert_string_not_equal(image_set_hash(first), image_set_hash(other));
}

TEST(test_digests_are_of_files_whatever_their_names)
{
    static const int64_t indices[] = {0, 1, 2};
    uint64_t digests[3];
    OWNED(temporary) directory = make_flat();
    put_text(directory, "b.jpg", "no image at all"); /* bytes are enough */
    const grail_image_source source = {.path = directory};
    OPENED(grail_images, set, image_set_open(&source, &set));
    assert_ok(image_set_digests(set, 3, indices, digests));
    assert_true(digests[0] != digests[1] && digests[0] == digests[2]);
    char path[4096];
    snprintf(path, sizeof path, "%s/b.jpg", directory);
    assert_int_equal(unlink(path), 0);
    assert_fails(image_set_digests(set, 3, indices, digests), GRAIL_ERROR_IO, "b.jpg");
}

TEST(test_a_folder_takes_no_split)
{
    OWNED(temporary) directory = make_classes();
    const grail_image_source source = {.path = directory, .split = "train"};
    image_set *set = NULL;
    assert_fails(
        image_set_open(&source, &set), GRAIL_ERROR_ARGUMENT,
        "holds no CIFAR-10 batches, so it has no split 'train'; give the folder of that split");
}

/* Loads the three images of the set, in one call or through a loader. */
static grail_status load_all(const image_set *set, bool ahead, float *pixels)
{
    const int64_t indices[] = {0, 1, 2};
    OWNED(image_loader) *loader = NULL;
    const float *batch = NULL;
    int64_t loaded = 0;
    if (!ahead) {
        return image_set_load(set, 3, indices, pixels);
    }
    CHECK(image_loader_open(set, 3, indices, 2, &loader));
    CHECK(image_loader_next(loader, &batch, &loaded));
    return image_loader_next(loader, &batch, &loaded);
}

static void expect_load_fails(const char *directory, grail_status code, const char *text)
{
    OWNED(grail_images) *set = open_set(directory, "cifar");
    OWNED(float) *pixels = NULL;
    assert_ok(memory_new(&pixels, 3 * 32 * 32 * 3, sizeof *pixels));
    for (int ahead = 0; ahead < 2; ahead++) {
        assert_fails(load_all(set, ahead == 1, pixels), code, text);
    }
}

TEST(test_images_that_cannot_be_decoded_are_named)
{
    OWNED(temporary) directory = make_classes();
    buffer bytes = square();
    support_write_file(directory, "zebra/b.jpg", bytes.bytes, bytes.size / 2);
    buffer_fini(&bytes);
    expect_load_fails(directory, GRAIL_ERROR_FORMAT, "/zebra/b.jpg: JPEG ends early: truncated?");
    put_text(directory, "zebra/B.JPEG", "");
    expect_load_fails(directory, GRAIL_ERROR_FORMAT, "/zebra/B.JPEG: is empty");
    put_text(directory, "Ant/x.png", "GIF89a");
    expect_load_fails(directory, GRAIL_ERROR_UNSUPPORTED,
                      "/Ant/x.png: does not begin like a JPEG or PNG file; convert it");
}

TEST(test_a_failed_loader_keeps_failing)
{
    OWNED(temporary) directory = make_classes();
    const int64_t indices[] = {0, 1, 2};
    const float *batch = NULL;
    int64_t loaded = 0;
    put_text(directory, "zebra/B.JPEG", "");
    OWNED(grail_images) *set = open_set(directory, "cifar");
    OPENED(image_loader, loader, image_loader_open(set, 3, indices, 1, &loader));
    assert_ok(image_loader_next(loader, &batch, &loaded));
    assert_int_equal(loaded, 1);
    for (int i = 0; i < 2; i++) {
        assert_fails(image_loader_next(loader, &batch, &loaded), GRAIL_ERROR_FORMAT, "is empty");
    }
}

typedef struct open_case {
    const char *directory;
    const char *labels;
} open_case;

static grail_status open_and_load(void *context)
{
    static const char *const names[] = {"zebra", "Ant"};
    const open_case *c = context;
    const grail_image_source source = {
        .path = c->directory, .labels = c->labels, .preset = "cifar"};
    OWNED(grail_images) *set = NULL;
    OWNED(float) *pixels = NULL;
    CHECK(image_set_open(&source, &set));
    CHECK(image_set_name_classes(set, names, 2));
    CHECK(memory_new(&pixels, 3 * 32 * 32 * 3, sizeof *pixels));
    return load_all(set, false, pixels);
}

TEST(test_failed_allocations_leave_nothing_behind)
{
    OWNED(temporary) directory = make_classes();
    open_case classes = {.directory = directory};
    support_fail_each_allocation(open_and_load, &classes);
    OWNED(temporary) flat = make_flat();
    char path[4096];
    put_text(flat, "labels.csv", "b.jpg,9\na.jpg,0\nc,d.jpg,4\n");
    snprintf(path, sizeof path, "%s/labels.csv", flat);
    open_case labelled = {.directory = flat, .labels = path};
    support_fail_each_allocation(open_and_load, &labelled);
}
