// The pages of docs/, installed with the program or in the source tree beside it.
#pragma once

#include <QList>
#include <QString>

class QWidget;

namespace moescope {

struct ManualPage {
  QString title, path;
};

QString manualFolder();                   // empty: the pages are not there
QList<ManualPage> manualPages();          // in the order of a manual, the glossary left out
QString manualPage(const QString& name);  // path of "precision.md"; empty: not there
ManualPage manualPageOn(const QString& workspace);  // about its panels; empty: not there

// In the desktop's viewer; where there is none the path is shown, to be copied.
void openManualPage(QWidget* parent, const QString& path);

}  // namespace moescope
