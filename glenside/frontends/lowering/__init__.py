"""What front ends lower to alike: functions over terms that know no file format."""
