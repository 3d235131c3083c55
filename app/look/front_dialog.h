#pragma once

class QWidget;

namespace moescope {

// The dialog in front of the window, behind which a box of the window would open; the window if there is none. A dialog
// that is deleted when it closes would take the box along.
QWidget* frontOf(QWidget* window);

}  // namespace moescope
