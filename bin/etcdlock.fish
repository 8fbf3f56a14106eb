# fish loads this file at the first completion of etcdlock.
set -g _etcdlock_program etcdlock
$_etcdlock_program completion fish 2>/dev/null | source
