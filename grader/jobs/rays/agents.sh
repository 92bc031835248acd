# In place of Ray's two agents, which would take seconds to start and serve a dashboard that nobody sees: says that they
# are there, in the files that the raylet waits for, and sleeps. `sh agents.sh SESSION_FOLDER ... --node-id=ID ...`
session=$1
for each; do case $each in --node-id=*) node=${each#--node-id=} ;; esac; done
for name in metrics_agent_port metrics_export_port dashboard_agent_listen_port runtime_env_agent_port; do
  port=1025
  [ $name = runtime_env_agent_port ] && port=$RANKUP_RAY_ENVIRONMENTS
  echo "$port" >"$session/$name.$$"
  mv "$session/$name.$$" "$session/${name}_$node"
done
exec sleep 2147483647
