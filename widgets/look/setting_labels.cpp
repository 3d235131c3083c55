#include "widgets/look/setting_labels.h"

#include <QRegularExpression>
#include <algorithm>

#include "core/config/config_field.h"
#include "core/config/run_settings.h"

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

QString settingLabel(const QString& name) {
  const std::string last_part = name.section('.', -1).toStdString();
  const ConfigField* field = find_field(name.toStdString());
  const auto logged = std::ranges::find(log_names(), last_part, &LogName::name);
  if (!field && logged != log_names().end())
    for (const ConfigField& known : config_fields())
      if (known.name() == logged->setting && Setting(known).is_in<RouterConfig>()) field = &known;
  return field ? QString::fromStdString(field->label) : name;
}

}  // namespace moescope
