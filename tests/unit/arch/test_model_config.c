/* Which configuration belongs to a directory, and to a weights file in it. */
#include "support/support.h"

#include "arch/model_config.h"
#include "base/file.h"
#include "support/json_memory.h"

#include <string.h>

static void write_text(const char *directory, const char *name, const char *text)
{
    support_write_file(directory, name, text, strlen(text));
}

/* The name of the configuration that `file` of the directory has, or NULL; "" is the directory. */
static const char *config_of(const char *directory, const char *file)
{
    char *path = NULL;
    model_config config = {0};
    if (file[0] == 0) {
        assert_ok(memory_copy_string(&path, directory));
    } else {
        assert_ok(path_join(&path, directory, file));
    }
    assert_ok(model_config_read(path, &config));
    const char *name = config.name;
    assert_int_equal(config.document != NULL, name != NULL);
    assert_int_equal(config.path != NULL, name != NULL);
    model_config_fini(&config);
    memory_free(path);
    return name;
}

static void a_weights_file_has_the_configuration_beside_it(void **state)
{
    write_text(*state, "config.json", "{\"model_type\": \"vit\"}");
    write_text(*state, "pytorch_model.bin", "");
    assert_string_equal(config_of(*state, "model.safetensors"), "config.json");
    assert_string_equal(config_of(*state, "pytorch_model.bin"), "config.json");
    write_text(*state, "config.json", "{\"architecture\": \"vit_tiny_patch16_224\"}");
    assert_string_equal(config_of(*state, "model.safetensors"), "config.json");
}

static void a_file_of_another_name_has_no_config_json(void **state)
{
    write_text(*state, "config.json", "{\"model_type\": \"vit\"}");
    write_text(*state, "epoch_3.pth", "");
    assert_null(config_of(*state, "epoch_3.pth"));
}

static void another_programs_config_json_is_passed_over(void **state)
{
    write_text(*state, "config.json", "{\"learning_rate\": 0.1}");
    assert_null(config_of(*state, "model.safetensors"));
    assert_string_equal(config_of(*state, ""), "config.json");
}

static void what_a_narrowing_wrote_is_read_with_the_only_weights(void **state)
{
    write_text(*state, "grail.json", "{}");
    write_text(*state, "net.pth", "");
    assert_string_equal(config_of(*state, "net.pth"), "grail.json");
    assert_string_equal(config_of(*state, ""), "grail.json");
    write_text(*state, "other.pth", "");
    assert_null(config_of(*state, "net.pth"));
}

static void a_file_beside_the_directorys_weights_is_its_own_network(void **state)
{
    write_text(*state, "grail.json", "{}");
    write_text(*state, "model.safetensors.index.json", "{}");
    write_text(*state, "net.pth", "");
    assert_null(config_of(*state, "net.pth"));
}

static void a_directory_without_configuration_has_none(void **state)
{
    assert_null(config_of(*state, ""));
    assert_null(config_of(*state, "model.safetensors"));
}

static void a_configuration_that_is_no_object_is_refused(void **state)
{
    char *path = NULL;
    model_config config = {0};
    write_text(*state, "config.json", "[]");
    assert_ok(path_join(&path, *state, "model.safetensors"));
    assert_fails(model_config_read(path, &config), GRAIL_ERROR_FORMAT,
                 "config.json: not a JSON object");
    memory_free(path);
}

static grail_status read_once(void *path)
{
    model_config config = {0};
    const grail_status status = model_config_read(path, &config);
    model_config_fini(&config);
    return status;
}

static void every_failing_allocation_is_survived(void **state)
{
    char *path = NULL;
    write_text(*state, "grail.json", "{}");
    write_text(*state, "net.pth", "");
    assert_ok(path_join(&path, *state, "net.pth"));
    support_fail_each_allocation(read_once, path);
    memory_free(path);
}

#define in_directory(test)                                                                         \
    cmocka_unit_test_setup_teardown(test, support_open_directory, support_close_directory)

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_directory(a_weights_file_has_the_configuration_beside_it),
        in_directory(a_file_of_another_name_has_no_config_json),
        in_directory(another_programs_config_json_is_passed_over),
        in_directory(what_a_narrowing_wrote_is_read_with_the_only_weights),
        in_directory(a_file_beside_the_directorys_weights_is_its_own_network),
        in_directory(a_directory_without_configuration_has_none),
        in_directory(a_configuration_that_is_no_object_is_refused),
        in_directory(every_failing_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, json_memory_use, NULL);
}
