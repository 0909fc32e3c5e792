# grail_embed(LAYER FILE NAME) compiles a file into a layer, as NAME[NAME_size] of bytes; whoever uses them
# declares both `extern const`. The build makes it anew when the file changes.
if(CMAKE_SCRIPT_MODE_FILE)
    file(READ ${INPUT} bytes HEX)
    string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
    string(REGEX REPLACE "(0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,)"
        "\\1\n" bytes "${bytes}")
    file(WRITE ${OUTPUT} "extern const unsigned char ${NAME}[];\nextern const unsigned long ${NAME}_size;\n"
        "const unsigned char ${NAME}[] = {\n${bytes}};\nconst unsigned long ${NAME}_size = sizeof ${NAME};\n")
    return()
endif()

set(GRAIL_EMBED ${CMAKE_CURRENT_LIST_FILE})
function(grail_embed layer file name)
    get_filename_component(input ${file} ABSOLUTE)
    set(output ${CMAKE_CURRENT_BINARY_DIR}/${name}.c)
    add_custom_command(OUTPUT ${output} DEPENDS ${input} ${GRAIL_EMBED} VERBATIM
        COMMAND ${CMAKE_COMMAND} -DINPUT=${input} -DOUTPUT=${output} -DNAME=${name} -P ${GRAIL_EMBED})
    target_sources(grail_${layer} PRIVATE ${output})
endfunction()
