// The sheet of keyboard shortcuts and mouse actions, explanations in a window, and the About box.
#pragma once

#include <QList>
#include <QPair>
#include <QStringList>

class QMainWindow;
class QWidget;

namespace moescope {

struct ShortcutGroup {
  QString name;                            // "View"
  QList<QPair<QString, QString>> entries;  // keys and their actions
};
// Returns the shortcuts of the window's menus, of its other actions, and of the plots.
QList<ShortcutGroup> shortcutGroups(QMainWindow* window);

void showShortcutSheet(QMainWindow* window);
void showExplanation(QWidget* parent, const QString& title, const QString& html);
void showAbout(QWidget* parent, const QStringList& facts);  // facts: rich text, one per line

}  // namespace moescope
