# grail_embed_page(LAYER DIRECTORY NAME) makes one HTML file of page.html, page.css and the scripts draw.js and
# page.js of the directory, and compiles it into a layer as grail_embed does. The style and the script are named by
# their hashes in the page's Content-Security-Policy, so a browser runs nothing else.
if(CMAKE_SCRIPT_MODE_FILE)
    # The digits of a SHA-256 as base64, which the policy takes.
    function(hash_of text out)
        set(alphabet "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
        string(SHA256 digits "${text}")
        string(APPEND digits "00") # 33 bytes are 44 characters; the last stands for the padding
        set(base64 "")
        foreach(at RANGE 0 60 6)
            string(SUBSTRING "${digits}" ${at} 6 three)
            foreach(shift 18 12 6 0)
                math(EXPR index "(0x${three} >> ${shift}) & 63")
                string(SUBSTRING "${alphabet}" ${index} 1 character)
                string(APPEND base64 "${character}")
            endforeach()
        endforeach()
        string(SUBSTRING "${base64}" 0 43 base64)
        set(${out} "sha256-${base64}=" PARENT_SCOPE)
    endfunction()

    foreach(part page.html page.css draw.js page.js)
        file(READ ${INPUT}/${part} text_of_${part})
    endforeach()
    set(page "${text_of_page.html}")
    set(style "${text_of_page.css}")
    set(script "${text_of_draw.js}${text_of_page.js}")
    hash_of("${style}" style_hash)
    hash_of("${script}" script_hash)
    foreach(name style_hash script_hash style script)
        string(REPLACE "@${name}@" "${${name}}" page "${page}")
    endforeach()
    file(WRITE ${OUTPUT} "${page}")
    return()
endif()

set(GRAIL_PAGE ${CMAKE_CURRENT_LIST_FILE})
function(grail_embed_page layer directory name)
    set(input ${CMAKE_CURRENT_SOURCE_DIR}/${directory})
    set(output ${CMAKE_CURRENT_BINARY_DIR}/${name}.html)
    add_custom_command(OUTPUT ${output} VERBATIM
        DEPENDS ${input}/page.html ${input}/page.css ${input}/draw.js ${input}/page.js ${GRAIL_PAGE}
        COMMAND ${CMAKE_COMMAND} -DINPUT=${input} -DOUTPUT=${output} -P ${GRAIL_PAGE})
    grail_embed(${layer} ${output} ${name})
endfunction()
