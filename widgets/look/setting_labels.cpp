#include "widgets/look/setting_labels.h"

#include <QRegularExpression>

#include "core/config/config_field.h"

namespace moescope {

QString withSettingLabels(const QString& text) {
  static const QRegularExpression kKey(QStringLiteral(R"(\b[a-z]+\.[a-z][a-z_0-9]*\b)"));
  QString labelled;
  qsizetype done = 0;
  for (auto keys = kKey.globalMatch(text); keys.hasNext();) {
    const auto key = keys.next();
    const ConfigField* field = find_field(key.captured().toStdString());
    if (!field) continue;
    labelled += text.mid(done, key.capturedStart() - done) + '"' + QString::fromStdString(field->label) + '"';
    done = key.capturedEnd();
  }
  return labelled + text.mid(done);
}

}  // namespace moescope
