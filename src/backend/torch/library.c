#include "backend/torch/library.h"

#include "base/file.h"
#include "base/memory.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { LEAST_MAJOR = 2, LEAST_MINOR = 11 };

static const char cpu_name[] = "libtorch_cpu.so";
static const char cuda_name[] = "libtorch_cuda.so";

/* Its own names first: torch brings the library of products that it was made for, and would call
 * one of the same names that this process has. Sanitizers refuse that. */
#ifdef __SANITIZE_ADDRESS__
enum { LOADING = RTLD_NOW | RTLD_GLOBAL };
#else
enum { LOADING = RTLD_NOW | RTLD_GLOBAL | RTLD_DEEPBIND };
#endif

torch_library torch;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* of these */
static bool is_loaded;
static bool has_cuda;
static char *folder; /* of the libraries; never freed, as they are never unloaded */

/* -- where it is ------------------------------------------------------------------------------- */

/* The directory that holds the libraries, below the one that a user names: that of the package, its
 * `lib`, or the one of an unpacked archive. *out is owned; NULL: there is none. */
static grail_status find_below(const char *named, char **out)
{
    static const char *const below[] = {"", "lib", "torch/lib"};
    for (size_t i = 0; *out == NULL && i < sizeof below / sizeof below[0]; i++) {
        grail_status status = GRAIL_OK;
        char *path = NULL;
        char *library = NULL;
        TRY(path_join(&path, named, below[i]));
        TRY(path_join(&library, path, cpu_name));
        if (file_exists(library)) {
            *out = path;
            path = NULL;
        }
    out:
        memory_free(path);
        memory_free(library);
        CHECK(status);
    }
    return GRAIL_OK;
}

static grail_status find_folder(void)
{
    grail_status status = GRAIL_OK;
    const char *named = getenv("GRAIL_TORCH");
    if (named == NULL) {
        FAIL_ABOUT("torch", GRAIL_ERROR_UNSUPPORTED,
                   "PyTorch was not looked for: GRAIL_TORCH does not name the directory of the "
                   "package torch, of release %d.%d or newer",
                   LEAST_MAJOR, LEAST_MINOR);
    }
    if (named[0] == 0) {
        FAIL_ABOUT("torch", GRAIL_ERROR_UNSUPPORTED,
                   "PyTorch was not found: python3 has no package torch; install release %d.%d or "
                   "newer, or let GRAIL_TORCH name its directory",
                   LEAST_MAJOR, LEAST_MINOR);
    }
    TRY(find_below(named, &folder));
    if (folder == NULL) {
        FAIL_ABOUT("torch", GRAIL_ERROR_UNSUPPORTED,
                   "'%s' has no %s; GRAIL_TORCH names the directory of the package torch", named,
                   cpu_name);
    }
out:
    return status;
}

/* -- loading ----------------------------------------------------------------------------------- */

static grail_status load_library(const char *name, void **out)
{
    grail_status status = GRAIL_OK;
    char *path = NULL;
    *out = dlopen(name, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD); /* a second one would not do */
    if (*out != NULL) {
        return GRAIL_OK;
    }
    TRY(folder == NULL ? find_folder() : GRAIL_OK);
    TRY(path_join(&path, folder, name));
    if (!file_exists(path)) { /* find_folder has seen the other one */
        FAIL_ABOUT("torch", GRAIL_ERROR_UNSUPPORTED,
                   "the PyTorch of '%s' was made without CUDA: it has no %s; install one with "
                   "CUDA, or compute on 'torch:cpu'",
                   folder, name);
    }
    *out = dlopen(path, LOADING);
    if (*out == NULL) {
        FAIL(GRAIL_ERROR_UNSUPPORTED, "PyTorch cannot be used: %s", dlerror());
    }
out:
    memory_free(path);
    return status;
}

/* Sets one function; false where the libraries lack it. */
static bool find_function(void *library, const char *name, void *out)
{
    void *found = dlsym(library, name);
    memcpy(out, &found, sizeof found);
    return found != NULL;
}

static grail_status check_version(void)
{
    const uint64_t version = torch.aoti_torch_abi_version();
    const int major = (int)(version >> 56);
    const int minor = (int)(version >> 48 & 255);
    return major > LEAST_MAJOR || (major == LEAST_MAJOR && minor >= LEAST_MINOR)
               ? GRAIL_OK
               : error_set(GRAIL_ERROR_UNSUPPORTED,
                           "PyTorch cannot be used: expected torch %d.%d or newer, found %d.%d",
                           LEAST_MAJOR, LEAST_MINOR, major, minor);
}

static grail_status find_functions(void *library)
{
    char missing[256] = "";
#define FUNCTION(result, name, parameters)                                                         \
    if (!find_function(library, #name, &torch.name) && missing[0] == 0) {                          \
        snprintf(missing, sizeof missing, "%s", #name);                                            \
    }
    TORCH_FUNCTIONS(FUNCTION)
#undef FUNCTION
#define FUNCTION(result, name, parameters) (void)find_function(library, #name, &torch.name);
    TORCH_OPTIONAL_FUNCTIONS(FUNCTION)
#undef FUNCTION
    CHECK(torch.aoti_torch_abi_version == NULL ? GRAIL_OK : check_version());
    if (missing[0] != 0) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "PyTorch cannot be used: its libraries lack the function %s; expected "
                         "torch %d.%d or newer",
                         missing, LEAST_MAJOR, LEAST_MINOR);
    }
    return GRAIL_OK;
}

/* A process that has one PyTorch can have no other, such as that of GRAIL_TORCH. */
static grail_status check_place(void)
{
    grail_status status = GRAIL_OK;
    const char *named = getenv("GRAIL_TORCH");
    Dl_info loaded = {0};
    struct stat own;
    struct stat other;
    char *path = NULL;
    void *function = NULL;
    if (named == NULL || named[0] == 0) {
        return GRAIL_OK;
    }
    memcpy(&function, &torch.aoti_torch_abi_version, sizeof function);
    TRY(folder == NULL ? find_folder() : GRAIL_OK);
    TRY(path_join(&path, folder, cpu_name));
    if (dladdr(function, &loaded) == 0 || stat(loaded.dli_fname, &own) != 0 ||
        stat(path, &other) != 0 || own.st_ino != other.st_ino || own.st_dev != other.st_dev) {
        FAIL_ABOUT("torch", GRAIL_ERROR_UNSUPPORTED,
                   "this process has PyTorch loaded already, from '%s', and GRAIL_TORCH names that "
                   "of '%s'; let it name the same one, or none",
                   loaded.dli_fname == NULL ? "?" : loaded.dli_fname, folder);
    }
out:
    memory_free(path);
    return status;
}

static grail_status load(bool with_cuda)
{
    void *library = NULL;
    void *device = NULL;
    if (!is_loaded) {
        CHECK(load_library(cpu_name, &library));
    }
    if (with_cuda && !has_cuda) {
        CHECK(load_library(cuda_name, &device));
    }
    if (library != NULL || device != NULL) {
        CHECK(find_functions(RTLD_DEFAULT));
        CHECK(check_place());
    }
    is_loaded = true;
    has_cuda = has_cuda || with_cuda;
    return GRAIL_OK;
}

grail_status torch_library_load(bool with_cuda)
{
    pthread_mutex_lock(&mutex);
    const grail_status status = is_loaded && (has_cuda || !with_cuda) ? GRAIL_OK : load(with_cuda);
    pthread_mutex_unlock(&mutex);
    return status;
}

/* -- failures ---------------------------------------------------------------------------------- */

const char *torch_library_failure(void)
{
    return torch.torch_exception_get_what_without_backtrace == NULL
               ? "its text stands above on standard error"
               : torch.torch_exception_get_what_without_backtrace();
}
