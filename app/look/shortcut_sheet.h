// Help: the sheet of keys and mouse moves, and what this program is.
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
