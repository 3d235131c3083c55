// Buttons that work with the keyboard, in a window whose shortcuts are single keys.
#pragma once

class QWidget;

namespace moescope {

// The window's single-key shortcuts (Space runs) would take the keys that work a button: here Space, Return and the
// arrows belong to it.
void keepKeys(QWidget* button);

}  // namespace moescope
