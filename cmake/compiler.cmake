# Flags that every target of ours has.
function(lzt_target_defaults target)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  target_compile_definitions(${target} PRIVATE _GNU_SOURCE LZT_VERSION="${PROJECT_VERSION}")
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wshadow -Wvla -Wformat=2 -Wundef -Wstrict-prototypes
                         -Wold-style-definition -Wmissing-prototypes -Wpointer-arith -Wwrite-strings
                         -fno-math-errno -ffp-contract=off)
  if(LZT_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  if(LZT_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${LZT_SANITIZE} -fno-omit-frame-pointer
                           -fno-sanitize-recover=undefined)
    target_link_options(${target} PUBLIC -fsanitize=${LZT_SANITIZE})
  endif()
endfunction()
