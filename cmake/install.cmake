# cmake --install, and a Debian package: cpack --config build/release/CPackConfig.cmake
set(CMAKE_INSTALL_DOCDIR share/doc/moescope)
include(GNUInstallDirs)
install(TARGETS moescope moescope-cli)
install(FILES packaging/moescope.desktop DESTINATION ${CMAKE_INSTALL_DATADIR}/applications)
install(FILES assets/moescope.svg DESTINATION ${CMAKE_INSTALL_DATADIR}/icons/hicolor/scalable/apps)
install(FILES packaging/moescope-mime.xml DESTINATION ${CMAKE_INSTALL_DATADIR}/mime/packages RENAME moescope.xml)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright)
install(FILES README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR})
# Files for users: sample logs, and the file that a PyTorch training imports. The program has its own copies built in.
install(DIRECTORY assets/samples assets/python DESTINATION ${CMAKE_INSTALL_DATADIR}/moescope PATTERN __pycache__ EXCLUDE)

find_program(HELP2MAN help2man)
if(HELP2MAN AND NOT MAN_PAGES_MADE)
  set(MAN_PAGES_MADE ${CMAKE_BINARY_DIR}/man)
  add_custom_command(
    OUTPUT ${MAN_PAGES_MADE}/moescope.1
    COMMAND ${CMAKE_SOURCE_DIR}/packaging/man_pages.sh $<TARGET_FILE:moescope> $<TARGET_FILE:moescope-cli> ${MAN_PAGES_MADE}
    DEPENDS moescope moescope-cli packaging/man_pages.sh)
  add_custom_target(man_pages ALL DEPENDS ${MAN_PAGES_MADE}/moescope.1)
endif()
if(MAN_PAGES_MADE)  # made above, or by a build whose programs run on this machine
  install(DIRECTORY ${MAN_PAGES_MADE}/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endif()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_CONTACT "MoEScope developers <moescope@localhost>")
set(CPACK_PACKAGE_DESCRIPTION
    "Trains a small DeepSeek-V3-style mixture-of-experts language model on the CPU and shows live what its router, its
all-to-all and its MXFP8 number formats do. Reads recordings and logs of other trainings, compares precisions side by
side, predicts the step time of a cluster.")
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "qt6-qpa-plugins, fonts-dejavu-core")  # loaded at run time: shlibdeps cannot find them
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "fonts-open-sans, openmpi-bin")
include(CPack)
