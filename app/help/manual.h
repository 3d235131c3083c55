// The pages of docs/, installed with the program or in the source tree beside it.
#pragma once

#include <QList>
#include <QString>

namespace moescope {

struct ManualPage {
  QString title, path;
};

QString manualFolder();                             // empty if there is no manual
QList<ManualPage> manualPages();                    // in reading order
QString manualPage(const QString& name);            // path of "precision.md"; empty if there is no such page
ManualPage manualPageOn(const QString& workspace);  // the page about a workspace or "Lessons"; empty if there is none

}  // namespace moescope
