# Every library that grail links, found once. Debian package names stand beside each.
find_package(PkgConfig REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS C)
find_package(Threads REQUIRED)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)      # libjansson-dev
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)     # libpcre2-dev
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc) # libutf8proc-dev
pkg_check_modules(ZLIB REQUIRED IMPORTED_TARGET zlib)            # zlib1g-dev
pkg_check_modules(JPEG REQUIRED IMPORTED_TARGET libjpeg)         # libjpeg-dev
pkg_check_modules(PNG REQUIRED IMPORTED_TARGET libpng)           # libpng-dev
pkg_check_modules(LIBMD REQUIRED IMPORTED_TARGET libmd)          # libmd-dev

# libblis-openmp-dev: the OpenMP flavour by its own path, whatever the system's BLAS alternative is. That of
# libblis-pthread-dev has threads of its own: for wheels, whose process may hold another OpenMP. Its archive
# becomes a part of libgrail: grail has a BLIS to itself, which other parts of the program neither see nor
# disturb, and answers what it asks the environment (src/backend/cpu/blas.c). Without the archive BLIS chooses
# its kernels alone.
set(GRAIL_BLIS openmp CACHE STRING "Flavour of BLIS: openmp or pthread")
find_path(BLIS_INCLUDE blis.h REQUIRED
    PATHS /usr/include/${CMAKE_LIBRARY_ARCHITECTURE}/blis-${GRAIL_BLIS} NO_DEFAULT_PATH)
find_library(BLIS_LIBRARY NAMES libblis.a blis REQUIRED
    PATHS /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/blis-${GRAIL_BLIS} NO_DEFAULT_PATH)
add_library(blis::blis INTERFACE IMPORTED)
target_include_directories(blis::blis SYSTEM INTERFACE ${BLIS_INCLUDE})
target_link_libraries(blis::blis INTERFACE ${BLIS_LIBRARY} OpenMP::OpenMP_C Threads::Threads m)
if(BLIS_LIBRARY MATCHES "\\.a$")
    target_compile_definitions(blis::blis INTERFACE GRAIL_BLIS_INSIDE)
    target_link_options(blis::blis INTERFACE "LINKER:--exclude-libs,libblis.a"
        "LINKER:--wrap=bli_env_get_var" "LINKER:--wrap=bli_env_get_str")
    # BLIS 0.9 orders operands in f32 through this one (src/backend/cpu/packing.h); another version may not.
    include(CheckCSourceCompiles)
    set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY) # not linked
    set(CMAKE_REQUIRED_INCLUDES ${BLIS_INCLUDE})
    set(CMAKE_REQUIRED_FLAGS -Werror=incompatible-pointer-types)
    check_c_source_compiles("#include <blis.h>
        void (*f)(conj_t, pack_t, dim_t, dim_t, dim_t, dim_t, float *, float *, inc_t, inc_t, float *, inc_t, cntx_t *) = bli_spackm_cxk;
        int main(void) { return f == 0; }" GRAIL_BLIS_PACKS)
    unset(CMAKE_REQUIRED_INCLUDES)
    unset(CMAKE_REQUIRED_FLAGS)
    unset(CMAKE_TRY_COMPILE_TARGET_TYPE)
    if(GRAIL_BLIS_PACKS)
        target_compile_definitions(blis::blis INTERFACE GRAIL_BLIS_PACKS)
        target_link_options(blis::blis INTERFACE "LINKER:--wrap=bli_spackm_cxk")
    endif()
endif()

# liblapacke-dev: eigenvalues, the last fallback of the solve. Found by header and library, since
# its pkg-config file asks for the system's BLAS.
find_path(LAPACKE_INCLUDE lapacke.h REQUIRED)
find_library(LAPACKE_LIBRARY lapacke REQUIRED)
add_library(lapacke::lapacke INTERFACE IMPORTED)
target_include_directories(lapacke::lapacke SYSTEM INTERFACE ${LAPACKE_INCLUDE})
target_link_libraries(lapacke::lapacke INTERFACE ${LAPACKE_LIBRARY})

# libdnnl-dev, oneDNN 2.x or 3.x: convolution and pooling. Found by header and library, since its
# CMake package file also asks for OpenCL, which only its recommended packages bring and grail does
# not use.
find_path(DNNL_INCLUDE oneapi/dnnl/dnnl_version.h REQUIRED)
find_library(DNNL_LIBRARY dnnl REQUIRED)
add_library(dnnl::dnnl INTERFACE IMPORTED)
target_include_directories(dnnl::dnnl SYSTEM INTERFACE ${DNNL_INCLUDE})
target_link_libraries(dnnl::dnnl INTERFACE ${DNNL_LIBRARY})
