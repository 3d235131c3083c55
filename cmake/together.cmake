# Most of the build time is spent on headers and templates that are read again for every file. A library therefore
# precompiles the common headers, and 16 of its files are compiled as one: 32 take 7 % less time as a whole, as preset ci
# compiles them, but more if one of them changes. Every file still has to include what it uses: -DMOESCOPE_TOGETHER=OFF
# compiles each file alone, and fails for files with missing includes.
set(CMAKE_UNITY_BUILD_BATCH_SIZE 16 CACHE STRING "Files that are compiled as one")
option(MOESCOPE_TOGETHER "Precompiled headers, and several files of a library compiled as one" ON)

set(STANDARD_HEADERS <algorithm> <array> <atomic> <bit> <charconv> <chrono> <cmath> <cstdint> <cstdio> <cstring> <filesystem>
    <fstream> <functional> <limits> <map> <memory> <mutex> <numeric> <optional> <set> <span> <stdexcept> <string>
    <string_view> <thread> <utility> <vector>)
set(QT_HEADERS <QAction> <QApplication> <QComboBox> <QDockWidget> <QFileDialog> <QFileInfo> <QHBoxLayout> <QKeyEvent>
    <QLabel> <QMenu> <QMessageBox> <QMouseEvent> <QPainter> <QPushButton> <QSettings> <QTableWidget> <QTimer> <QToolButton>
    <QToolTip> <QVBoxLayout>)

#   compile_together(TARGET [PRIVATE HEADER... | REUSE_FROM OTHER])   OTHER: a target with the same options and a precompiled header
function(compile_together target)
  if(NOT MOESCOPE_TOGETHER)
    return()
  endif()
  if(ARGN)
    target_precompile_headers(${target} ${ARGN})
  endif()
  # GCC treats a batch of files as a header. It frees memory less often, from 1 GB on, which takes about 4 % less time.
  target_compile_options(${target} PRIVATE "$<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage;--param=ggc-min-heapsize=1000000>")
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON)
  # Files with kernels for several processors are compiled alone, because Highway includes each of them once per processor,
  # and without precompiled headers, whose inline functions could be compiled with the options for a specific processor.
  get_target_property(sources ${target} SOURCES)
  foreach(source ${sources})
    file(STRINGS ${source} highway REGEX "HWY_TARGET_INCLUDE" LIMIT_COUNT 1)
    if(highway)
      set_source_files_properties(${source} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON SKIP_PRECOMPILE_HEADERS ON)
    endif()
  endforeach()
endfunction()
