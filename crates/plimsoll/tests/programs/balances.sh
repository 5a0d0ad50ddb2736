# A cluster of PostgreSQL under pgbench, whose transactions only add, so that their order does not matter; sorts and sums of its
# tables. Prints no times; equal on each run.
PATH=$PATH:$POSTGRES
initdb -D data -A trust -U tester --no-sync --locale=C >log 2>&1
postgres -D data -k "$PWD" -c listen_addresses= -c max_connections=12 -c shared_buffers=4MB -c fsync=off -c jit=off \
    -c autovacuum=off -c max_parallel_workers_per_gather=0 -c work_mem=96MB -c maintenance_work_mem=48MB >>log 2>&1 &
export PGHOST="$PWD" PGUSER=tester PGDATABASE=postgres
until pg_isready -q; do sleep 0.05; done
pgbench -q -i -s 4 >>log 2>&1
pgbench -n -c 4 -j 2 -t 250 --random-seed=7 | grep transactions
psql -At <<'SQL'
select sum(abalance), md5(string_agg(aid || ' ' || abalance, ',' order by aid)) from pgbench_accounts;
select count(*), sum(delta) from pgbench_history;
select sum(tbalance) from pgbench_tellers;
select md5(string_agg(sum, '' order by sum)) from (select md5(aid::text) as sum from pgbench_accounts) as sums;
SQL
kill -INT $!
wait
