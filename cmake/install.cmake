# What `cmake --install` puts where: libraries, headers, program, CMake package, pkg-config files, man
# pages, shell completions, documents.
include(CMakePackageConfigHelpers)

install(TARGETS grail EXPORT grailTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET grail-mpi)
    install(TARGETS grail-mpi LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/grail)
endif()
install(TARGETS grail-cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY include/grail DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")

set(GRAIL_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/grail)
configure_package_config_file(cmake/grailConfig.cmake.in ${PROJECT_BINARY_DIR}/grailConfig.cmake
    INSTALL_DESTINATION ${GRAIL_PACKAGE_DIR})
# Before 1.0 a minor release may change the interface.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/grailConfigVersion.cmake
    COMPATIBILITY SameMinorVersion)
install(EXPORT grailTargets NAMESPACE grail:: DESTINATION ${GRAIL_PACKAGE_DIR})
install(FILES ${PROJECT_BINARY_DIR}/grailConfig.cmake ${PROJECT_BINARY_DIR}/grailConfigVersion.cmake
    DESTINATION ${GRAIL_PACKAGE_DIR})

# pkg-config finds the prefix from the file's own place, so an installed tree can be moved.
file(RELATIVE_PATH GRAIL_PC_PREFIX
    ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
configure_file(cmake/grail.pc.in ${PROJECT_BINARY_DIR}/grail.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/grail.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# grail_generated(<output> <install directory> <command>...): the command's standard output becomes
# an installed file.
set(GRAIL_GENERATED)
function(grail_generated output destination)
    cmake_parse_arguments(ARG "" "" "COMMAND;DEPENDS" ${ARGN})
    get_filename_component(directory ${output} DIRECTORY)
    file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/${directory})
    add_custom_command(OUTPUT ${PROJECT_BINARY_DIR}/${output}
        COMMAND ${ARG_COMMAND} > ${PROJECT_BINARY_DIR}/${output}
        DEPENDS ${ARG_DEPENDS} VERBATIM)
    install(FILES ${PROJECT_BINARY_DIR}/${output} DESTINATION ${destination})
    set(GRAIL_GENERATED ${GRAIL_GENERATED} ${PROJECT_BINARY_DIR}/${output} PARENT_SCOPE)
endfunction()

grail_generated(completions/grail ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
    COMMAND grail-cli completion bash DEPENDS grail-cli)
grail_generated(completions/_grail ${CMAKE_INSTALL_DATADIR}/zsh/site-functions
    COMMAND grail-cli completion zsh DEPENDS grail-cli)

find_program(SCDOC scdoc)
if(SCDOC)
    file(GLOB manual CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/docs/man ${PROJECT_SOURCE_DIR}/docs/man/*.scd)
    foreach(source ${manual})
        string(REGEX REPLACE "\\.scd$" "" page ${source})
        string(REGEX REPLACE ".*\\." "" section ${page})
        grail_generated(man/${page} ${CMAKE_INSTALL_MANDIR}/man${section}
            COMMAND ${SCDOC} < ${PROJECT_SOURCE_DIR}/docs/man/${page}.scd
            DEPENDS ${PROJECT_SOURCE_DIR}/docs/man/${page}.scd)
    endforeach()
else()
    message(STATUS "scdoc was not found: no man pages")
endif()
add_custom_target(grail_generated_files ALL DEPENDS ${GRAIL_GENERATED})

install(FILES python/grail/study/recipe.schema.json DESTINATION ${CMAKE_INSTALL_DATADIR}/grail)
install(FILES README.md CHANGELOG.md LICENSE docs/architecture.md docs/numerics.md docs/extending.md
    docs/formats.md docs/python.md docs/scale.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
