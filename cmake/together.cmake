# Common headers are read once for all targets of the same flags, and up to 16 files of a target are compiled as one. Every
# file still includes what it uses: -DMOESCOPE_TOGETHER=OFF builds a file at a time, and fails for a file that does not.
#   together(TARGET [HEADER]...)           precompiles these headers; without any, none
#   together(TARGET REUSE_FROM OTHER)      takes those of a target with the same flags
set(STANDARD_HEADERS <algorithm> <array> <atomic> <bit> <charconv> <chrono> <cmath> <cstdint> <cstdio> <cstring> <filesystem>
    <fstream> <functional> <limits> <map> <memory> <mutex> <numeric> <optional> <set> <span> <stdexcept> <string>
    <string_view> <thread> <utility> <vector>)
set(QT_HEADERS <QAction> <QApplication> <QComboBox> <QDockWidget> <QFileDialog> <QFileInfo> <QHBoxLayout> <QKeyEvent>
    <QLabel> <QMenu> <QMessageBox> <QMouseEvent> <QPainter> <QPushButton> <QSettings> <QTableWidget> <QTimer> <QToolButton>
    <QToolTip> <QVBoxLayout>)

function(together target)
  if(NOT MOESCOPE_TOGETHER)
    return()
  endif()
  if("${ARGV1}" STREQUAL REUSE_FROM)
    target_precompile_headers(${target} REUSE_FROM ${ARGV2})
  elseif(ARGN)
    target_precompile_headers(${target} PRIVATE ${ARGN})
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 16)
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)  # GCC takes unnamed namespaces for a header's
  # Highway reads files with kernels once for every processor.
  get_target_property(sources ${target} SOURCES)
  foreach(source ${sources})
    if(source MATCHES "\\.cpp$" AND EXISTS ${source})
      file(STRINGS ${source} highway REGEX "HWY_TARGET_INCLUDE" LIMIT_COUNT 1)
      if(highway)
        set_source_files_properties(${source} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
      endif()
    endif()
  endforeach()
endfunction()
