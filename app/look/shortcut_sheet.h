// The sheet of keyboard shortcuts and mouse actions, and the About box.
#pragma once

#include <QList>
#include <QStringList>

class QAction;
class QWidget;

namespace moescope {

void showShortcutSheet(QWidget* parent, const QList<QAction*>& actions);  // those of them that have keys
void showExplanation(QWidget* parent, const QString& title, const QString& html);
void showAbout(QWidget* parent, const QStringList& facts);  // facts: rich text, one per line

}  // namespace moescope
