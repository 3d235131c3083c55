# Precompiled headers, one set per library, halve the time of a build. Every file still includes what it uses:
# -DMOESCOPE_PRECOMPILED=OFF -DMOESCOPE_UNITY=OFF builds without them and fails for a file that does not.
option(MOESCOPE_PRECOMPILED "Read common headers once a library" ON)

set(STANDARD_HEADERS <algorithm> <array> <atomic> <bit> <charconv> <chrono> <cmath> <cstdint> <cstdio> <cstring> <filesystem>
    <fstream> <functional> <limits> <map> <memory> <mutex> <numeric> <optional> <set> <span> <stdexcept> <string>
    <string_view> <thread> <utility> <vector>)
set(QT_HEADERS <QAction> <QApplication> <QComboBox> <QDockWidget> <QFileDialog> <QFileInfo> <QHBoxLayout> <QKeyEvent>
    <QLabel> <QMenu> <QMessageBox> <QMouseEvent> <QPainter> <QPushButton> <QSettings> <QTableWidget> <QTimer> <QToolButton>
    <QToolTip> <QVBoxLayout>)

#   precompile(TARGET HEADER...)       reads these once for the target
#   share_precompiled(TARGET OTHER)    takes those of a target with the same compiler flags
function(precompile target)
  if(MOESCOPE_PRECOMPILED)
    target_precompile_headers(${target} PRIVATE ${ARGN})
  endif()
endfunction()
function(share_precompiled target other)
  if(MOESCOPE_PRECOMPILED)
    target_precompile_headers(${target} REUSE_FROM ${other})
  endif()
endfunction()
