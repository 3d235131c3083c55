// Keyboard access to buttons in a window whose shortcuts are single keys.
#pragma once

class QWidget;

namespace moescope {

// Lets a focused button receive Space, Return and the arrow keys, which the window's single-key shortcuts would take.
void keepKeys(QWidget* button);

}  // namespace moescope
