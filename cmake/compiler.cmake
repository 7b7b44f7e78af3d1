# Flags that every target of ours has.
include(CheckPIESupported)
check_pie_supported()

option(LZT_HARDEN "stack protector, fortified libc calls, read-only relocations" ON)

function(lzt_target_defaults target)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  target_compile_definitions(${target} PRIVATE _GNU_SOURCE LZT_VERSION="${PROJECT_VERSION}")
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wshadow -Wvla -Wformat=2 -Wundef -Wstrict-prototypes
                         -Wold-style-definition -Wmissing-prototypes -Wpointer-arith -Wwrite-strings
                         $<$<C_COMPILER_ID:GNU>:-Wno-format-truncation> # texts of errors are cut on purpose
                         -fno-math-errno -ffp-contract=off)
  if(LZT_HARDEN AND NOT LZT_SANITIZE)
    target_compile_options(${target} PRIVATE -fstack-protector-strong -fstack-clash-protection -U_FORTIFY_SOURCE
                           -D_FORTIFY_SOURCE=2)
    target_link_options(${target} PUBLIC -Wl,-z,relro,-z,now)
  endif()
  if(LZT_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  if(LZT_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${LZT_SANITIZE} -fno-omit-frame-pointer
                           -fno-sanitize-recover=undefined)
    target_link_options(${target} PUBLIC -fsanitize=${LZT_SANITIZE})
  endif()
  if(LZT_FUZZ)
    target_compile_options(${target} PRIVATE -fsanitize=fuzzer-no-link)
  endif()
endfunction()
