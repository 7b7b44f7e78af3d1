# make install: program, libraries, headers, pkg-config file, CMake package (find_package(lazytrain)).
#
# The shared library hides what it links; the static one needs it all. They are exported apart, so that a user of the
# shared library needs no development packages.
include(CMakePackageConfigHelpers)

install(TARGETS lazytrain RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS lazytrain_shared EXPORT lazytrain-shared LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS lazytrain_static EXPORT lazytrain-static ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/lazytrain DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")

install(DIRECTORY docs/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 FILES_MATCHING PATTERN "*.1")
install(DIRECTORY docs/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man5 FILES_MATCHING PATTERN "*.5")
install(FILES docs/completion/lazytrain.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
        RENAME lazytrain)
install(FILES docs/completion/_lazytrain DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
install(FILES docs/completion/lazytrain.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)

set(lzt_cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/lazytrain)
foreach(kind shared static)
  install(EXPORT lazytrain-${kind} NAMESPACE lazytrain:: FILE lazytrain-${kind}.cmake DESTINATION ${lzt_cmake_dir})
endforeach()
configure_package_config_file(cmake/lazytrain-config.cmake.in ${PROJECT_BINARY_DIR}/lazytrain-config.cmake
                              INSTALL_DESTINATION ${lzt_cmake_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/lazytrain-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/lazytrain-config.cmake ${PROJECT_BINARY_DIR}/lazytrain-config-version.cmake
        DESTINATION ${lzt_cmake_dir})

file(RELATIVE_PATH lzt_pc_to_prefix /p/${CMAKE_INSTALL_LIBDIR}/pkgconfig /p)
string(JOIN " " lzt_pc_requires ${LZT_PC_REQUIRES})
configure_file(cmake/lazytrain.pc.in ${PROJECT_BINARY_DIR}/lazytrain.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/lazytrain.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
